"""Fresh copies of the checkout."""

import os
import shutil
from pathlib import Path

import pytest

from kernels.registry import ARCHITECTURES
from tests.shared import built, once
from tests.workflow.checkout import checkout
from tests.workflow.recorded import ARCHIVE, record

# NVML as a machine with one GPU has it.
NVML = """
class NVMLError(Exception): pass
def nvmlInit(): pass
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(gpu): return "Test GPU"
def nvmlSystemGetCudaDriverVersion(): return 13000
"""
TOOLS = ("bash", "sh", "cat", "env", "git", "head", "tail", "tee", "uname")


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive folder with a full run of every sweep."""
    return once(tmp_path_factory, "recorded", record) / ARCHIVE


@pytest.fixture
def copy(tmp_path: Path, recording: Path) -> Path:
    """A checkout in which nothing was made yet and one GPU was recorded."""
    root = checkout(tmp_path / "checkout")
    shutil.copytree(recording, root / "experiments" / "archive" / recording.name)
    return root


@pytest.fixture
def compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """This checkout's cache has every kernel: a workflow that builds them finds them there."""
    for arch in ARCHITECTURES:
        built(arch, tmp_path_factory)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of programs, without ncu."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU, as far as the workflow asks before it runs anything."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "pynvml.py").write_text(NVML)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
