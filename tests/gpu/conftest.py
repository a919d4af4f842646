"""Tests of this folder run on a GPU: ``pytest -m gpu tests/gpu``."""

import fcntl

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


@pytest.fixture(autouse=True)
def company(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Tests marked ``alone``, which time the GPU, wait until no other process uses it."""
    alone = request.node.get_closest_marker("alone") is not None
    # The processes of one run have their folders side by side.
    with (tmp_path_factory.getbasetemp().parent / "gpu.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


@pytest.hookimpl(trylast=True)  # once the report is there
def pytest_configure(config: pytest.Config) -> None:
    """The report says which code passed.

    Not in a fixture: tests run in several processes, and the report is made in none of these.
    """
    for plugin in config.pluginmanager.get_plugins():
        if isinstance(plugin, LogXML):
            plugin.add_global_property("code_commit", commit())
