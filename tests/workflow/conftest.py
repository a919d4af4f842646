"""Fresh copies of the checkout."""

import os
import shutil
from pathlib import Path

import pytest

from tests.shared import once
from tests.workflow.checkout import checkout, snakemake
from tests.workflow.recorded import ARCHIVE, SOURCE, record

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


def recorded(root: Path, recording: Path) -> Path:
    """A checkout at ``root`` in which nothing was made yet and one GPU was recorded."""
    checkout(root)
    shutil.copytree(recording, root / "experiments" / "archive" / recording.name)
    return root


@pytest.fixture
def copy(tmp_path: Path, recording: Path) -> Path:
    """A checkout in which nothing was made yet and one GPU was recorded."""
    return recorded(tmp_path / "checkout", recording)


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory, recording: Path) -> Path:
    """A checkout in which everything was made of the one GPU that was recorded, once a test run."""

    def make(folder: Path) -> None:
        root = recorded(folder / "checkout", recording)
        # It is made without a network: whoever asks for one meets a closed door.
        with pytest.MonkeyPatch.context() as patch:
            for name in ("http_proxy", "https_proxy"):
                patch.setenv(name, "http://127.0.0.1:9")
            done = snakemake(root, "--config", f"source={SOURCE}")
        assert done.returncode == 0, done.stdout
        assert f"source: {SOURCE}" in done.stdout

    return once(tmp_path_factory, "everything", make) / "checkout"


@pytest.fixture
def made(tmp_path: Path, everything: Path) -> Path:
    """A copy of that checkout, for a test that goes on from there."""
    return shutil.copytree(everything, tmp_path / "checkout")


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
