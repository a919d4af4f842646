"""One run at a time in a folder: a lock that the operating system releases when its holder dies."""

import fcntl
from pathlib import Path
from typing import IO


class Busy(RuntimeError):
    """Another run works in this folder."""


def acquire(path: Path) -> IO[str]:
    """Hold the lock at ``path`` until the returned file is closed or the process ends.

    Raises Busy where another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise Busy(
            f"another run is working in {path.parent.parent}: wait for it, or stop it"
        ) from error
    return file
