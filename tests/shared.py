"""What is made once a test run, by the worker whose test asks first: builds of everything."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.compiled import CACHE, write
from tests.commands import module


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder ``name`` that all workers of a test run have in common, as ``make`` fills it."""
    run = factory.getbasetemp()
    run = run.parent if "PYTEST_XDIST_WORKER" in os.environ else run
    folder = run / name
    with (run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            make(part := factory.mktemp(name))
            part.rename(folder)
    return folder


def built(arch: str, factory: pytest.TempPathFactory) -> Path:
    """The folder of a build for ``arch`` from nothing, with the compilers' cache in it.

    What was compiled goes to this checkout's cache too, where workflows look for it.
    """

    def build(folder: Path) -> None:
        cache = folder / "cache"
        done = module("kernels.build", "--arch", arch, "--out", folder, cache=cache)
        assert done.returncode == 0, done.stdout
        assert "0 failed" in done.stdout
        CACHE.mkdir(parents=True, exist_ok=True)
        for made in sorted(cache.iterdir()):  # code before its facts: others may be reading
            write(CACHE / made.name, made.read_bytes())

    return once(factory, f"built-{arch}", build)
