"""Builds of everything from nothing: one an architecture and test run, whoever asks first."""

import fcntl
import os
from pathlib import Path

import pytest

from kernels.compiled import CACHE, write
from tests.commands import module


def shared(factory: pytest.TempPathFactory) -> Path:
    """The folder of a test run that all its workers have in common."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def built(arch: str, run: Path) -> Path:
    """The folder of a build for ``arch`` in ``run``, and the compilers' cache beside its cubins.

    What was compiled goes to this checkout's cache too, where workflows look for it.
    """
    folder = run / "built" / arch
    cache, said = folder / "cache", folder / "said.log"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            done = module("kernels.build", "--arch", arch, "--out", folder, cache=cache)
            assert done.returncode == 0, done.stdout
            CACHE.mkdir(parents=True, exist_ok=True)
            for made in sorted(cache.iterdir()):  # code before its facts: others may be reading
                write(CACHE / made.name, made.read_bytes())
            said.write_text(done.stdout)
    assert "0 failed" in said.read_text()
    return folder
