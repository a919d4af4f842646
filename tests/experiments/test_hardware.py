"""Facts of a machine, and the sentence that says why it cannot be measured."""

import importlib.util
from types import SimpleNamespace

import pytest
import torch

from experiments import hardware


def test_the_cuda_of_torch_is_read_without_importing_it():
    assert hardware.torch_cuda() == torch.version.cuda


def test_a_missing_torch_has_no_cuda(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert hardware.torch_cuda() is None


def test_a_cpu_build_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hardware, "torch_cuda", lambda: None)
    assert f"PyTorch {torch.__version__} is a CPU build: install" in hardware.unfit()


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
