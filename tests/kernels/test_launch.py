"""Binding a variant: what a machine lacks and what a caller gets wrong is said, not met below."""

import sys
from types import ModuleType

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
    with pytest.raises(Unavailable, match="triton_row needs the package 'triton': pip install"):
        load.__wrapped__("triton_row")


@pytest.mark.parametrize(
    ("name", "modules", "call"),
    [
        ("liger", ("liger_kernel.ops.softmax", "liger_kernel.ops.utils"), ((5, 33), 64, 4)),
        ("quack", ("quack.softmax",), ((5, 33),)),
        ("flashinfer", ("flashinfer.jit.sampling", "flashinfer.utils"), (2**20, None, 1.0, True)),
    ],
)
def test_a_peer_writes_to_the_callers_memory(
    name: str, modules: tuple[str, ...], call: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
):
    seen: list[object] = []

    class Kernel:
        def __getitem__(self, grid: tuple[int]):
            def launch(out: Tensor, _o: int, x: Tensor, _x: int, cols: int, **how: int) -> None:
                seen.extend([(*grid, cols), how["BLOCK_SIZE"], how["num_warps"]])
                out.copy_(torch.softmax(x, dim=1))

            return launch

    def op(x: Tensor, out: Tensor) -> None:
        seen.append(tuple(x.shape))
        out.copy_(torch.softmax(x, dim=1))

    class Module:
        def build_and_load(self):
            return self

        def softmax(self, workspace: Tensor, x: Tensor, out: Tensor, *how: object) -> None:
            seen.extend([workspace.nbytes, *how])
            out.copy_(torch.softmax(x, dim=1))

    for path in modules:
        stub = ModuleType(path)
        vars(stub).update(
            _softmax_single_block_forward_kernel=Kernel(), _softmax_fwd=op,
            calculate_settings=lambda cols: (64, 4), gen_sampling_module=Module,
            device_support_pdl=lambda device: True,
        )  # fmt: skip
        monkeypatch.setitem(sys.modules, path, stub)
    monkeypatch.delitem(sys.modules, f"kernels.peers.{name}", raising=False)
    x = torch.randn(5, 33)
    y = torch.zeros_like(x)
    assert load.__wrapped__(name)(x, y) is y
    assert torch.equal(y, torch.softmax(x, dim=1))
    assert tuple(seen) == call
    monkeypatch.delitem(sys.modules, f"kernels.peers.{name}")


def test_a_peer_that_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "quack", None)
    monkeypatch.delitem(sys.modules, "kernels.peers.quack", raising=False)
    with pytest.raises(Unavailable, match=r"quack needs .*pip install --group peers"):
        load.__wrapped__("quack")


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
