"""Tests of this folder run on a GPU: ``pytest -m gpu tests/gpu``."""

import fcntl
import gc
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import torch
from _pytest.junitxml import LogXML

from experiments.hardware import commit


@pytest.fixture(scope="session", autouse=True)
def gpu() -> None:
    """Skip where there is none; nothing of this folder means anything elsewhere."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")


@pytest.fixture(scope="session")
def hopper(gpu: None) -> None:
    """Skip before Hopper."""
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("needs a GPU from Hopper on")


@pytest.fixture
def collected() -> None:
    """For tests that capture a graph: one that an earlier test left in a cycle is gone.

    Were it collected during the capture, that would end: its memory is freed.
    """
    gc.collect()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Tests marked ``alone``, which time the GPU, wait until no other process's test uses it.

    Those marked ``large``, which take most of its memory, wait for one another; and every test
    leaves what it took, since the caches of several processes would hold what those need.
    """
    if item.get_closest_marker("gpu") is None:
        yield
        return
    large = item.get_closest_marker("large") is not None
    alone = item.get_closest_marker("alone") is not None
    with (
        locked("memory.py", fcntl.LOCK_EX) if large else nullcontext(),
        locked("conftest.py", fcntl.LOCK_EX if alone else fcntl.LOCK_SH),
    ):
        yield
        torch.cuda.empty_cache()


@contextmanager
def locked(name: str, operation: int) -> Iterator[None]:
    """Hold the file ``name`` of this folder as one of flock's operations says."""
    with Path(__file__).with_name(name).open() as file:
        fcntl.flock(file, operation)
        yield


@pytest.hookimpl(trylast=True)  # once the report is there
def pytest_configure(config: pytest.Config) -> None:
    """The report says which code passed.

    Not in a fixture: tests run in several processes, and the report is made in none of these.
    """
    for plugin in config.pluginmanager.get_plugins():
        if isinstance(plugin, LogXML):
            plugin.add_global_property("code_commit", commit())
