"""The gradient's kernels, run by this machine's compiler: any memory, nothing written around it."""

import ctypes
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from experiments.tune_backward import MOST_HELD, OWN_SHARED, SHARED
from kernels.cuda_compiler import C_TYPES
from kernels.frontier.backward import Gradient
from kernels.frontier.backward_plans import FOLDER, HELD, backward_plan, plan_of, teams
from kernels.frontier.measured import table
from kernels.frontier.plans import VECTOR_BYTES, Shape, vectors_from_line
from kernels.frontier.select import DEFAULT
from kernels.operators import composed_backward
from kernels.registry import DTYPES, ELEMENT_BYTES
from tests.kernels.frontier_host import in_cpp
from tests.kernels.host import library

# What holds more of a row than the rule does.
MEASURED = {shape for entries in table(FOLDER, DEFAULT).values() for _, shape in entries}
# Of 16 bits one dtype will do: float16 does not run on the host.
KINDS = ("float32", "bfloat16")
SHAPES = {
    "warp": (Shape("warp", (16, 64)), (1, 7, 31, 64, 200, 250)),
    "block": (Shape("block", (64, 1)), (1, 63, 256, 257, 900)),
    "cluster": (Shape("cluster", (32, 4, 1)), (1, 63, 1024, 1003, 5000, 8000)),
    "cluster's stash": (Shape("cluster", (32, 4, 1, 3)), (1, 63, 1024, 1003, 5000, 8000)),
    # Blocks run one after the other here, so that each is a team: of others tests/gpu has some.
    "grid": (Shape("grid", (64, 1, 1)), (1, 63, 1024, 1003, 2000)),
    # And one warp, which does not wait here for what another one asks for.
    "grid's stash": (Shape("grid", (32, 1, 1, 2)), (1, 63, 1024, 1003, 2000)),
    "stream": (Shape("stream", (32,)), (1, 63, 1024, 1003, 5000)),
}
TEAMS = 3
# Of a grid: where its blocks meet; it was used before, and its next numbers go past 0.
MEETING = """static unsigned long long meeting[2 * (1 + 2 * 3)] = {0xfffffffdu};
"""
CALL = """extern "C" void call{number}(
        int blocks, int threads, int shared, const {t} *y, const {t} *dy, {t} *dx,
        long long y_stride, long long dy_stride, long long dx_stride, int cols, long long rows,
        long long given) {{
    dynamic_vectors = shared / 16;
{cluster}    launch(blocks, threads, [=] {{
        {kernel}(y, dy, dx, y_stride, dy_stride, dx_stride, cols, rows{given});
    }});
}}
"""


# Of a softmax, and of operators of it.
GRADIENTS = (
    None,
    Gradient(log=False, scale=0.5, factor=-2.0, masked=False),
    Gradient(log=True, scale=0.5, factor=-2.0, masked=False),
    Gradient(log=True, scale=1.0, factor=1.0, masked=True),
)


def layouts(
    rows: int, cols: int, dtype: torch.dtype, of: Gradient | None
) -> Iterator[tuple[Tensor, ...]]:
    """y, dy, the place of dx and the memory around it, full of 7; NaN around what is read."""
    for gap, offsets in ((0, (0, 0, 0)), (0, (1, 1, 1)), (3, (1, 2, 0)), (8, (0, 3, 5))):
        size, shape = rows * (cols + gap) + 64, (rows, cols)
        around = [torch.full((size,), fill, dtype=dtype) for fill in (torch.nan, torch.nan, 7.0)]
        y, dy, dx = (
            memory.as_strided(shape, (cols + gap, 1), _aligned(memory) + 16 + offset)
            for memory, offset in zip(around, offsets, strict=True)
        )
        x = 4 * torch.randn(shape)
        if of and of.masked:
            x.masked_fill_(torch.rand(shape) < 0.3, -torch.inf)
        results = torch.log_softmax(x, -1) if of and of.log else torch.softmax(x, -1)
        y.copy_(results * (of.factor if of else 1.0))
        dy.copy_(torch.randn(shape))
        yield y, dy, dx, around[2]


def _aligned(memory: Tensor) -> int:
    """Elements up to a boundary of 16 bytes."""
    return -memory.data_ptr() % 16 // memory.element_size()


def exact(y: Tensor, dy: Tensor, of: Gradient | None) -> Tensor:
    of = of or Gradient(log=False, scale=1.0, factor=1.0, masked=False)
    options = y.double(), -1, torch.float64, of.log, of.scale, of.factor, of.masked
    return composed_backward(dy.double(), *options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("regime", SHAPES)
@pytest.mark.parametrize("of", GRADIENTS, ids=["softmax", "factors", "log", "masked log"])
def test_a_kernel_is_right_in_any_memory_and_writes_nothing_else(
    of: Gradient | None, regime: str, kind: str, tmp_path: Path
):
    torch.manual_seed(0)
    shape, widths = SHAPES[regime]
    dtype, size = getattr(torch, kind), ELEMENT_BYTES[kind]
    plans = {
        (cols, edges): replace(plan_of(shape, cols, size, edges), given=(of.type,) if of else ())
        for cols in (widths if of is None else widths[2:4])
        for edges in ((1, 0) if cols * size % VECTOR_BYTES == 0 else (1,))
    }
    given, clusters = f", *({of.type} *)&given" if of else "", shape.regime == "cluster"
    met = ", 1, (Scratch *)meeting" if shape.regime == "grid" else ""
    calls = MEETING + "".join(
        CALL.format(
            number=n,
            t=C_TYPES[kind],
            kernel=plan.expression(C_TYPES[kind]),
            given=met + given,
            cluster=f"    cluster = {shape.sizes[1]};\n" if clusters else "",
        )
        for n, plan in enumerate(plans.values())
    )
    variant = in_cpp(f"backward_{shape.regime}", tmp_path)
    for header in ("bulk", "cluster"):
        stand_in = Path(__file__).with_name(f"{header}_on_the_host.cuh")
        shutil.copy(stand_in, tmp_path / f"{header}.cuh")
    code = library(variant, calls, tmp_path)
    for number, ((cols, edges), plan) in enumerate(plans.items()):
        rows = 11
        for y, dy, dx, memory in layouts(rows, cols, dtype, of):
            whole = all(
                (t.data_ptr() | t.stride(0) * size) % VECTOR_BYTES == 0 for t in (y, dy, dx)
            )
            if not edges and not whole:
                continue
            dx.fill_(torch.nan)
            blocks = -(-rows * shape.sizes[0] // plan.threads) if regime == "warp" else rows
            blocks = min(rows, TEAMS) if shape.regime == "grid" else blocks
            blocks *= shape.sizes[1] if clusters else 1
            for _ in range(1 + clusters):
                code[f"call{number}"](
                    blocks, plan.threads, plan.ring_bytes,
                    *(ctypes.c_void_p(t.data_ptr()) for t in (y, dy, dx)),
                    *(ctypes.c_longlong(t.stride(0)) for t in (y, dy, dx)),
                    ctypes.c_int(cols), ctypes.c_longlong(rows),
                    ctypes.c_longlong(of.argument if of else 0),
                )  # fmt: skip
            near = 4e-6 if kind == "float32" else 8e-3
            torch.testing.assert_close(dx.double(), exact(y, dy, of), atol=near, rtol=near)
            dx.fill_(7.0)
            assert bool((memory == 7.0).all()), (cols, y.stride())
    assert ("cluster" not in regime and "grid" not in regime) or code.uneven() == 0
    for fault in ("misaligned", "beyond"):
        assert ctypes.c_int.in_dll(code, fault).value == 0, fault


@given(
    st.sampled_from(DTYPES),
    st.one_of(st.integers(1, 5000), st.integers(1, 2**24)),
    st.booleans(),
    st.sampled_from([80, 86, 90, 100, 120]),
    st.sampled_from([8, 16, 108, 114, 132, 148]),
)
def test_a_plan_holds_its_row_and_fits_the_gpu(
    dtype: str, cols: int, edges: bool, arch: int, multiprocessors: int
):  # fmt: skip
    size = ELEMENT_BYTES[dtype]
    edges = edges or cols * size % VECTOR_BYTES != 0
    plan = backward_plan(cols, size, edges, arch, multiprocessors)
    sizes, vectors = plan.shape.sizes, vectors_from_line(cols, size, edges)
    assert plan.file.is_file()
    measured = arch in (90, 100) and plan.shape in MEASURED
    most = MOST_HELD + edges if measured else HELD * size // VECTOR_BYTES
    assert 0 <= plan.held - plan.stashed <= most
    if plan.shape.regime in ("cluster", "grid"):  # as many blocks as registers are left for
        assert sizes[2] * (plan.ring_bytes + OWN_SHARED) <= SHARED
    assert 32 <= plan.threads <= 1024
    match plan.shape.regime:
        case "warp":
            assert sizes[0] * plan.held >= cols * size // VECTOR_BYTES
        case "block":
            assert sizes[0] * plan.held >= vectors
        case "cluster":
            assert arch in (90, 100)
            share = -(-vectors // (sizes[1] * 8)) * 8  # in whole lines
            assert sizes[0] * plan.held >= share
        case "grid":
            assert plan.cols_held(size) >= cols
            assert teams(plan.shape, multiprocessors) > 0
    if edges:
        assert sizes[0] >= 2 * (VECTOR_BYTES // size - 1)


def test_rows_are_read_once_on_hopper_up_to_a_million_columns():
    for cols in (32_000, 50_257, 128_256, 151_936, 262_144, 300_001, 2**19, 2**20):
        for dtype in DTYPES:
            edges = cols % 8 != 0
            plan = backward_plan(cols, ELEMENT_BYTES[dtype], edges, 90, 132)
            assert plan.shape.regime != "stream", (cols, dtype)
    assert backward_plan(2**20 + 4, 4, False, 90, 132).shape.regime == "stream"


def test_a_gpu_without_room_for_a_team_reads_twice():
    assert backward_plan(2**19, 4, False, 90, 132).shape.regime == "grid"
    assert backward_plan(2**19, 4, False, 90, 8).shape.regime == "stream"
