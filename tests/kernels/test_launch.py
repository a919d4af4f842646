"""Binding a variant: what a machine lacks and what a caller gets wrong is said, not met below."""

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import Tensor

from kernels import launch
from kernels.launch import Unavailable, bind, check_arguments, load
from kernels.outputs import TopK, empty_output, spoilt
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


def test_liger_is_imported_without_what_it_only_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ops = tmp_path / "liger_kernel" / "ops"
    ops.mkdir(parents=True)
    (ops / "softmax.py").write_text("_softmax_single_block_forward_kernel = 1")
    (ops / "utils.py").write_text(
        "found = []\n"
        "for name in ('peft', 'transformers'):\n"
        "    try:\n        found.append(__import__(name))\n    except ImportError:\n        pass\n"
        "def calculate_settings(cols): return found\n"
    )
    for name in ("peft", "transformers"):
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "kernels.peers.liger", raising=False)
    load.__wrapped__("liger")
    assert sys.modules["liger_kernel.ops.utils"].calculate_settings(5) == []
    hidden = ("peft", "transformers")
    for name in hidden:  # for everybody else they are there
        assert importlib.import_module(name).__file__
    ours = [n for n in sys.modules if "liger_kernel" in n]
    for name in (*hidden, "kernels.peers.liger", *ours):
        del sys.modules[name]


WRONG_ARGUMENTS = {
    "one dimension": (torch.zeros(4), torch.zeros(4)),
    "two shapes": (torch.zeros(4, 5), torch.zeros(5, 4)),
    "two dtypes": (torch.zeros(4, 5), torch.zeros(4, 5, dtype=torch.float16)),
    "input by columns": (torch.zeros(5, 4).T, torch.zeros(4, 5)),
    "output by columns": (torch.zeros(4, 5), torch.zeros(5, 4).T),
}


X = torch.zeros(4, 5)
COLUMNS = torch.zeros(4, 2, dtype=torch.int64)
WRONG_TOPS = {
    "one tensor": (X, torch.zeros(4, 2)),
    "another k": (X, TopK(torch.zeros(4, 3), COLUMNS)),
    "fewer rows": (X, TopK(torch.zeros(3, 2), COLUMNS)),
    "another dtype": (X, TopK(torch.zeros(4, 2).half(), COLUMNS)),
    "indices of 32 bits": (X, TopK(torch.zeros(4, 2), COLUMNS.int())),
    "values by columns": (X, TopK(torch.zeros(2, 4).T, COLUMNS)),
    "indices by columns": (X, TopK(torch.zeros(4, 2), COLUMNS.view(2, 4).T)),
    "input by columns": (torch.zeros(5, 4).T, TopK(torch.zeros(4, 2), COLUMNS)),
    "too few columns": (X[:, :1], TopK(torch.zeros(4, 2), COLUMNS)),
    "one dimension": (X[0], TopK(torch.zeros(4, 2), COLUMNS)),
}


@pytest.mark.parametrize("label", WRONG_TOPS)
def test_wrong_arguments_of_a_top_k_are_refused(label: str):
    with pytest.raises(ValueError, match="expected"):
        check_arguments(*WRONG_TOPS[label], k=2)


def test_a_top_k_is_no_output_of_a_whole_row():
    with pytest.raises(ValueError, match="expected out to be a tensor; got TopK"):
        check_arguments(X, TopK(torch.zeros(4, 2), COLUMNS))


def test_an_empty_output_is_what_the_variant_gives():
    x = torch.zeros(5, 40, dtype=torch.bfloat16)
    top = empty_output(variant("cuda_topk_16"), x)
    check_arguments(x, top, k=16)
    assert isinstance(top, TopK)
    assert bool(spoilt(top).values.isnan().all())
    assert set(top.indices.flatten().tolist()) == {-1}
    check_arguments(x, whole := empty_output(variant("torch_eager"), x))
    assert isinstance(whole, Tensor)
    assert bool(spoilt(whole).isnan().all())


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, int], list[int]]]:
    """Grid, block and shared memory, and the arguments, of every launch; nothing is run."""
    import cuda.core

    seen: list[tuple[dict[str, int], list[int]]] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    stream = SimpleNamespace(cuda_stream=0)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: torch.zeros(0).get_device())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(launch, "make_current", lambda device: None)
    monkeypatch.setattr(launch, "_check_driver", lambda: None)
    monkeypatch.setattr(launch, "_stream", lambda handle: handle)
    monkeypatch.setattr(launch._Cuda, "_load", lambda self, x, tile, whole: [self.variant.name])
    monkeypatch.setattr(cuda.core, "LaunchConfig", lambda **config: config)
    monkeypatch.setattr(
        cuda.core, "launch",
        lambda stream, config, kernel, *given: seen.append((config, [int(v) for v in given])),
    )  # fmt: skip
    return seen


def test_a_kernel_gets_its_tensors_then_their_strides_then_the_columns(launched):
    x, y = torch.zeros(3, 50)[:, :40], torch.zeros(3, 60)[:, 8:48]
    assert launch._Cuda(variant("cuda_block_tree"))(x, y) is y
    config = {"grid": 3, "block": 256, "shmem_size": 1024}
    assert launched == [(config, [x.data_ptr(), y.data_ptr(), 50, 60, 40])]


def test_a_top_k_gets_both_of_its_outputs(launched):
    x = torch.zeros(3, 50)[:, :40]
    top = TopK(torch.zeros(3, 9)[:, :8], torch.zeros(3, 11, dtype=torch.int64)[:, 2:10])
    assert launch._Cuda(variant("cuda_topk_8"))(x, top) is top
    pointers = [x.data_ptr(), top.values.data_ptr(), top.indices.data_ptr()]
    config = {"grid": 3, "block": 128, "shmem_size": 0}
    assert launched == [(config, [*pointers, 50, 9, 11, 40])]


S5 = ["cuda_warp_row", "cuda_online_reload", "cuda_split_reread", "cuda_split_rescale_exact"]


@pytest.mark.parametrize("name", S5)
@pytest.mark.parametrize(
    ("start", "cols", "other", "whole"),
    [
        (0, 8192, 8192, True),
        (4, 8192, 8196, True),
        (0, 8190, 8192, False),  # a vector is short
        (1, 8192, 8196, False),  # the first row is off 16 bytes
        (0, 8192, 8193, False),  # the second row is
    ],
)
def test_a_row_of_whole_vectors_on_16_bytes_takes_the_form_that_looks_for_no_end(
    launched, monkeypatch, name: str, start: int, cols: int, other: int, whole: bool
):
    asked = []
    monkeypatch.setattr(
        launch._Cuda, "_load", lambda self, x, tile, form: asked.append(form) or [name]
    )
    even, odd = torch.zeros(3, 8192 + 8), torch.zeros(3, other + 8)[:, start : start + cols]
    softmax = launch._Cuda(variant(name))
    for x, y in ((even[:, :cols], odd), (odd, even[:, :cols])):
        softmax(x, y)
    assert asked == [whole, whole]


def test_a_row_that_does_not_fill_its_tile_takes_the_form_that_looks_for_its_end(launched):
    softmax = launch._Cuda(variant("cuda_block_row"))
    assert softmax.policy.whole
    assert [softmax.policy.filled(c) for c in (2048, 4096, 6144, 8192)] == [0, 1, 0, 1]
    assert not launch._Cuda(variant("cuda_float4")).policy.whole


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
