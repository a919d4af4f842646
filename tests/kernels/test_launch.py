"""Binding a variant: what a machine lacks and what a caller gets wrong is said, not met below."""

import pytest
import torch
from torch import Tensor

from kernels import launch
from kernels.launch import Unavailable, bind, check_arguments, load
from kernels.registry import variant
from tests.reference import DEVICE


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        KeyError, match=r"unknown variant 'softmx'; known: copy_torch, .*cuda_float4"
    ):
        bind("softmx")


def test_a_cuda_variant_without_a_gpu_is_unavailable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(Unavailable, match="cuda_block_tree needs a CUDA GPU"):
        launch._Cuda(variant("cuda_block_tree"))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> None:
        raise ImportError(name="triton")

    monkeypatch.setattr(launch.importlib, "import_module", missing)
    with pytest.raises(Unavailable, match="triton_row needs the package 'triton'"):
        load.__wrapped__("triton_row")


WRONG_ARGUMENTS = {
    "one dimension": (torch.zeros(4), torch.zeros(4)),
    "two shapes": (torch.zeros(4, 5), torch.zeros(5, 4)),
    "two dtypes": (torch.zeros(4, 5), torch.zeros(4, 5, dtype=torch.float16)),
    "input by columns": (torch.zeros(5, 4).T, torch.zeros(4, 5)),
    "output by columns": (torch.zeros(4, 5), torch.zeros(5, 4).T),
}


@pytest.mark.parametrize("label", WRONG_ARGUMENTS)
def test_wrong_arguments_are_refused(label: str):
    with pytest.raises(ValueError, match="expected"):
        check_arguments(*WRONG_ARGUMENTS[label])


def test_one_column_has_any_column_stride():
    x = torch.zeros(4, 6)[:, ::3][:, :1]
    assert x.stride(1) == 3
    check_arguments(x, torch.zeros(4, 1))


def refuses(name: str, x: Tensor, out: Tensor) -> bool:
    try:
        bind(name)(x, out)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("name", ["triton_row", "triton_hybrid", "triton_online"])
def test_a_variant_refuses_what_it_would_get_wrong(name: str):
    x = torch.arange(20.0, device=DEVICE).reshape(5, 4).T
    assert refuses(name, x, torch.zeros(4, 5, device=DEVICE))
