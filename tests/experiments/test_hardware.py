"""Facts of a machine, and the sentence that says why it cannot be measured."""

import importlib.util
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from experiments import hardware
from experiments.tuning import tuned_at


def test_the_cuda_of_torch_is_read_without_importing_it():
    assert hardware.torch_cuda() == torch.version.cuda


def test_a_missing_torch_has_no_cuda(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert hardware.torch_cuda() is None


def test_a_cpu_build_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hardware, "torch_cuda", lambda: None)
    assert f"PyTorch {torch.__version__} is a CPU build: install" in hardware.unfit()


def test_a_commit_is_dirty_where_tracked_files_differ_but_for_those_that_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def git(*words: str) -> str:
        who = "-c", "user.name=a", "-c", "user.email=a@b.c"
        return subprocess.run(
            ["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.strip()

    monkeypatch.setattr(hardware, "ROOT", tmp_path)
    assert hardware.commit() == "unknown"
    table = tmp_path / "kernels/frontier/tables/columns/gpu.json"
    table.parent.mkdir(parents=True)
    code = tmp_path / "kernels/frontier/tables.py"
    for path in (table, code):
        path.write_text("0")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    git("tag", "v1")
    head = git("rev-parse", "HEAD")
    (tmp_path / "untracked").touch()
    assert hardware.commit() == tuned_at() == head
    table.unlink()  # as tuning puts it away
    assert (hardware.commit(), tuned_at()) == (f"{head}-dirty", head)
    table.write_text("1")
    assert (hardware.commit(), tuned_at()) == (f"{head}-dirty", head)
    code.write_text("1")
    assert tuned_at() == f"{head}-dirty"


class Gone:
    def __init__(self, index: int) -> None:
        raise RuntimeError("no CUDA-capable device is detected")


def test_a_gpu_that_cuda_does_not_find_is_one_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hardware, "torch_cuda", lambda: "13.0")
    monkeypatch.setattr("cuda.core.Device", Gone)
    assert hardware.unfit() == (
        "CUDA finds no usable GPU (no CUDA-capable device is detected): compare the driver with "
        "CUDA 13.0, and look at CUDA_VISIBLE_DEVICES"
    )


def test_a_gpu_that_cuda_finds_is_fit(monkeypatch: pytest.MonkeyPatch):
    seen = SimpleNamespace(multiprocessor_count=132, l2_cache_size=2**26)
    monkeypatch.setattr(hardware, "torch_cuda", lambda: "13.0")
    monkeypatch.setattr("cuda.core.Device", lambda index: SimpleNamespace(properties=seen))
    assert hardware.unfit() == ""
