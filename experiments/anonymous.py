"""Reports name a file as the repository or a package does, and not where a machine has it."""

import re
from pathlib import Path

REPORTS = (".log", ".xml")
# Where a path goes on after the folders that only one machine has.
_OURS = ("experiments", "figures", "kernels", "paper", "tests", "workflow", "site-packages", "bin")
_MACHINES = re.compile(rf"(?<![\w.])/(?:[\w.+-]+/)+?(?=(?:{'|'.join(_OURS)})/)")
# The system's are alike everywhere.
_SYSTEM = re.compile(r"/(?:usr/|lib)")


def copied(source: Path, copy: Path) -> None:
    """Write the file ``source`` to ``copy``: a report without folders of its machine."""
    if source.suffix in REPORTS:
        copy.write_text(anonymous(source.read_text()))
    else:
        copy.write_bytes(source.read_bytes())


def anonymous(text: str) -> str:
    """``text`` with paths from the repository's root, or from where packages are installed."""

    def shortened(found: re.Match[str]) -> str:
        return found[0] if _SYSTEM.match(found[0]) else ""

    return _MACHINES.sub(shortened, text)
