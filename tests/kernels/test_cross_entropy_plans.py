"""Which kernel of the cross-entropy takes a row, that it compiles, and what it is launched with."""

import ctypes
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from cuda.bindings import driver
from hypothesis import given
from hypothesis import strategies as st

from experiments.tune_cross_entropy import MOST_HELD
from kernels import prepared
from kernels.compiled import Job
from kernels.frontier import cross_entropy as launches
from kernels.frontier import frontier
from kernels.frontier.compiler import compile_plan
from kernels.frontier.cross_entropy import Terms
from kernels.frontier.cross_entropy_plans import (
    FILES,
    HELD,
    INDICES,
    SCALE,
    TARGETS,
    CrossEntropyPlan,
    cross_entropy_plan,
    plan_of,
)
from kernels.frontier.plans import ALIKE, APART, NONE, VECTOR_BYTES, Shape, vectors_from_line
from kernels.registry import ARCHITECTURES, DTYPES, ELEMENT_BYTES

CLUSTER, WIDE = Shape("cluster", (512, 8, 2)), Shape("cluster", (1024, 16, 1))
COMPILED = (
    (Shape("warp", (32, 128)), 1000), (Shape("block", (512, 2)), 10_000),
    (Shape("stream", (512, 1)), 10**6), (CLUSTER, 150_000), (WIDE, 262_145),
    (Shape("stream", (512, 16)), 10**6),
)  # fmt: skip
# Bytes of spills: registers are those of two blocks of 512 threads on a multiprocessor, and at
# the widest rows one or two too few, which the loads of the other block cover.
MOST_SPILLED = 16


@given(
    st.sampled_from(DTYPES),
    st.integers(1, 10**5),
    st.one_of(st.integers(1, 5000), st.integers(1, 2**24)),
    st.sampled_from([NONE, ALIKE, APART]),
    st.sampled_from([80, 86, 90, 100, 120]),
    st.booleans(),
    st.booleans(),
)
def test_a_plan_holds_its_row_and_fits_the_gpu(
    dtype: str, rows: int, cols: int, edges: int, arch: int, gradient: bool, smooth: bool
):
    size = ELEMENT_BYTES[dtype]
    edges = max(edges, int(cols * size % VECTOR_BYTES != 0))
    edges = edges if gradient else min(edges, ALIKE)
    plan = cross_entropy_plan(rows, cols, size, edges, arch, 132, gradient, smooth, "int64")
    sizes, vectors = plan.shape.sizes, vectors_from_line(cols, size, edges)
    assert plan.file.is_file()
    assert 32 <= plan.threads <= 1024
    assert plan.held <= MOST_HELD
    match plan.shape.regime:
        case "warp":
            assert sizes[0] * plan.held >= cols * size // VECTOR_BYTES
            assert sizes[0] >= {NONE: 1, ALIKE: 2 * (VECTOR_BYTES // size - 1), APART: 32}[edges]
        case "block":
            assert sizes[0] * plan.held >= vectors
        case "cluster":
            assert sizes[0] * plan.held >= -(-vectors // (sizes[1] * 8)) * 8  # in whole lines
    assert arch in (90, 100) or plan.blocks == 1
    if edges and plan.shape.regime != "warp":
        assert sizes[0] >= 64  # elements of the edges


def test_gradients_of_todays_vocabularies_take_one_read_on_hopper():
    for cols in (32_000, 50_257, 128_256, 151_936, 262_144):
        for dtype in DTYPES:
            plan = cross_entropy_plan(
                4096, cols, ELEMENT_BYTES[dtype], cols % 8 != 0, 90, 132, True, False, "int64"
            )
            assert plan.shape.regime != "stream", (cols, dtype)


def test_few_rows_are_shared_out_and_many_are_not():
    blocks = [
        cross_entropy_plan(rows, 131_072, 2, NONE, 90, 132, False, False, "int64").blocks
        for rows in (1, 64, 4096)
    ]
    assert blocks == [4, 4, 1]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_kernel_compiles_and_next_to_none_spills(arch: str):
    rows = {
        "sm_90": (("bfloat16", ALIKE), ("float32", APART)),
        "sm_80": (("bfloat16", APART),),
    }.get(arch, (("float16", NONE),))
    plans = [
        (plan_of(shape, cols, ELEMENT_BYTES[dtype], edges, gradient, smooth, "int64"), dtype)
        for dtype, edges in rows
        for shape, cols in COMPILED
        for gradient in (True, False)
        for smooth in (True, False)
        if (arch != "sm_80" or (shape.regime != "cluster" and shape.sizes[-1] != 16))
        and (gradient or (shape.regime in ("warp", "stream") and edges < APART))
        and (smooth or gradient)
    ]
    plans = [(p, d) for p, d in plans if p.held <= HELD]
    plans += [
        (CrossEntropyPlan(TARGETS, 0, NONE, (), index), "float32") for index in INDICES.values()
    ]
    plans.append((CrossEntropyPlan(SCALE, 0, ALIKE), "bfloat16"))
    for plan, dtype in plans:
        used = compile_plan(plan, Job("frontier", dtype, arch)).kernels[0].resources
        assert used.spill_bytes is not None
        assert used.spill_bytes <= MOST_SPILLED, (plan.label, used)
    assert {plan.file.stem for plan, _ in plans} == {f"cross_entropy_{name}" for name in FILES}


def test_a_launch_gets_its_arguments_in_order(monkeypatch: pytest.MonkeyPatch):
    seen: list[tuple[Any, ...]] = []

    def listen(config: Any, plan: CrossEntropyPlan, addresses: int, extra: int) -> tuple[Any]:
        at = (ctypes.c_void_p * 11).from_address(addresses)
        values = [ctypes.c_int64.from_address(place or 0).value for place in at]
        terms = (ctypes.c_int64 * 4).from_address(at[10] or 0)
        seen.append((plan, config.gridDimX, values[:10], bytes(terms)))
        return (driver.CUresult.CUDA_SUCCESS,)

    monkeypatch.setattr(driver, "cuLaunchKernelEx", listen)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 77, raising=False)
    monkeypatch.setattr(prepared, "make_current", lambda device: None)
    monkeypatch.setattr(prepared, "relaxed", nullcontext)
    monkeypatch.setattr(prepared, "THREAD", prepared._Thread())
    monkeypatch.setattr(launches, "gpu", lambda i: frontier.Gpu("nvidia-h200", 90, 132))
    monkeypatch.setattr(launches, "kernel", lambda plan, dtype, device: plan)
    monkeypatch.setattr(launches, "allow", lambda plan, name, value: None)

    x, grad = torch.zeros(64, 50_264)[:, :50_257], torch.zeros(64, 50_257)
    target, loss, lse, weight = torch.zeros(64), torch.zeros(64), torch.zeros(64), torch.ones(64)
    target = target.int()
    terms = Terms(-7, 0.5, 0.25, True)
    launches.cross_entropy(x, target, terms, loss, lse, grad, weight)
    plan, grid, values, told = seen.pop()
    assert (plan.shape.regime, plan.edges, plan.index) == ("cluster", APART, "int")
    assert grid == 64 * plan.blocks
    pointers = [t.data_ptr() for t in (x, grad, target, weight, loss, lse)]
    assert values == [*pointers, 50_264, 50_257, 50_257, 64]
    assert ctypes.c_int64.from_buffer_copy(told).value == -7
    assert ctypes.c_int64.from_buffer_copy(told, 8).value == 1
    assert [ctypes.c_float.from_buffer_copy(told, at).value for at in (16, 20)] == [0.5, 0.25]
    assert ctypes.c_int.from_buffer_copy(told, 24).value == 1
    launches.cross_entropy(x, target, terms, loss, lse, None, None)
    plan, _, values, told = seen.pop()
    assert plan.shape.regime == "stream"
    assert values[1:4] == [x.data_ptr(), target.data_ptr(), 0]
    assert ctypes.c_int64.from_buffer_copy(told, 8).value == 0
    launches.cross_entropy(x[:0], target[:0], terms, loss[:0], lse[:0])
    assert not seen
