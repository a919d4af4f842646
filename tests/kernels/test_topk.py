"""The k largest of a softmax: torch's two steps, and the fused kernel's own code without a GPU.

The kernel is compiled by the C++ compiler of this machine, where there is one.
"""

import ctypes
from collections.abc import Callable
from functools import cache

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from experiments.check import check, planted
from experiments.correctness import cases, examine
from kernels.launch import bind, check_arguments
from kernels.outputs import TopK, empty_output, spoilt
from kernels.registry import DTYPES, TOP, variant
from tests.kernels.host import library
from tests.kernels.test_values import VALUES
from tests.reference import DEVICE, assert_topk

ON_THE_HOST = ("float32", "bfloat16")  # 16 bytes are four of one, eight of the other
CALLS = """
#define TOPK(NAME, T)                                                                            \\
    extern "C" void NAME(int rows, int size, const T *x, T *values, long long *indices,          \\
                         long long x_stride, long long values_stride, long long indices_stride,  \\
                         int cols) {                                                             \\
        launch(rows, size, [=] {                                                                 \\
            softmax<T>(x, values, indices, x_stride, values_stride, indices_stride, cols);       \\
        });                                                                                      \\
    }
TOPK(float32, float)
TOPK(bfloat16, __nv_bfloat16)
"""
Top = Callable[[torch.Tensor, TopK], TopK]


def small(name: str, x: torch.Tensor) -> TopK:
    out = spoilt(empty_output(variant(name), x))
    assert isinstance(out, TopK)
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", TOP)
def test_torchs_two_steps_are_right_on_every_case(k: int, dtype: str):
    name, wrong = f"torch_topk_{k}", {}
    for case in cases(getattr(torch, dtype), DEVICE, k):
        if variant(name).refusal(dtype, case.x.shape[1]):
            continue
        verdict = examine(name, case)
        if not verdict.ok:
            wrong[case.name, *case.x.shape] = verdict.reason
        assert isinstance(case.out, TopK)
        assert_topk(case.x, case.out)
    assert wrong == {}


def test_torchs_two_steps_write_nothing_beside_the_output():
    x = planted(3, 781, torch.float32, DEVICE, seed=1)
    values = torch.full((5, 14), 7.0, device=DEVICE)
    indices = torch.full((5, 14), 7, device=DEVICE)
    top = TopK(values[1:4, 3:11], indices[1:4, 4:12])
    assert bind("torch_topk_8")(x, top) is top
    assert_topk(x, top)
    for memory, written in ((values, top.values), (indices, top.indices)):
        written.fill_(7)
        assert bool((memory == 7).all())


@pytest.fixture(scope="module")
def on_the_host(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Top]:
    """The kernel of cuda_topk_<k>, compiled for this machine's processor."""
    folder = tmp_path_factory.mktemp("host")

    @cache
    def compiled(k: int) -> Top:
        v = variant(f"cuda_topk_{k}")
        assert v.launch is not None
        code, (threads, _) = library(v, CALLS, folder), v.launch.block(1)

        def call(x: torch.Tensor, out: TopK) -> TopK:
            check_arguments(x, out, k)
            tensors = (x, *out)
            code[str(x.dtype).removeprefix("torch.")](
                ctypes.c_int(len(x)), ctypes.c_int(threads),
                *(ctypes.c_void_p(t.data_ptr()) for t in tensors),
                *(ctypes.c_longlong(t.stride(0)) for t in tensors),
                ctypes.c_int(x.shape[1]),
            )  # fmt: skip
            assert ctypes.c_int.in_dll(code, "misaligned").value == 0
            return out

        return call

    return compiled


@pytest.mark.parametrize("dtype", ON_THE_HOST)
@pytest.mark.parametrize("k", TOP)
def test_the_kernel_is_right_on_every_case(k: int, dtype: str, on_the_host: Callable[[int], Top]):
    wrong = {}
    for case in cases(getattr(torch, dtype), "cpu", k):
        if variant(f"cuda_topk_{k}").refusal(dtype, case.x.shape[1]):
            continue
        assert isinstance(case.out, TopK)
        verdict = check(case.x, on_the_host(k)(case.x, case.out))
        if not verdict.ok:
            wrong[case.name, *case.x.shape] = verdict.reason
        assert_topk(case.x, case.out)
    assert wrong == {}


@pytest.mark.parametrize("k", TOP)
@pytest.mark.parametrize("spare", [0, 1, 5])
def test_the_kernel_takes_rows_of_barely_k_columns(
    k: int, spare: int, on_the_host: Callable[[int], Top]
):
    x = planted(3, k + spare, torch.float32, "cpu", seed=k)
    x[1, 1:] = -torch.inf
    x[2, 0] = torch.nan
    assert_topk(x, on_the_host(k)(x, small(f"cuda_topk_{k}", x)))


@pytest.mark.parametrize("k", [1, 8, 32])
def test_the_largest_may_all_be_one_threads_or_one_warps(k: int, on_the_host: Callable[[int], Top]):
    # Of 128 threads each reads four columns of every 512.
    x = planted(3, 20_000, torch.float32, "cpu", seed=2)
    x[0, 40:20_000:512] += 100
    x[1].view(-1, 32)[::16] += 100
    x[2] = torch.arange(20_000) / 1000
    assert_topk(x, on_the_host(k)(x, small(f"cuda_topk_{k}", x)))


def test_the_kernel_sums_a_million_columns(on_the_host: Callable[[int], Top]):
    x = planted(1, 2**20, torch.float32, "cpu", seed=3)
    assert check(x, on_the_host(4)(x, small("cuda_topk_4", x))).max_rel_err < 5e-6


def test_every_nan_has_a_column_of_its_own(on_the_host: Callable[[int], Top]):
    x = torch.full((2, 8), -1, dtype=torch.int32).view(torch.float32)  # all bits set: one NaN
    x[1, 3] = 1.0
    assert_topk(x, on_the_host(8)(x, small("cuda_topk_8", x)))


@pytest.mark.parametrize("dtype", ON_THE_HOST)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data(), k=st.sampled_from([1, 4, 32]))
def test_random_shapes_and_values(
    dtype: str, data: st.DataObject, k: int, on_the_host: Callable[[int], Top]
):
    shape = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 90)))
    assume(shape[1] >= k)
    values = data.draw(arrays("float32", shape, elements=VALUES))
    x = torch.from_numpy(values).to(getattr(torch, dtype))
    assert_topk(x, on_the_host(k)(x, small(f"cuda_topk_{k}", x)))
