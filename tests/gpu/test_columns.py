"""Softmax down columns on the GPU: right in any memory, by every regime, as torch's."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.library import opcheck

from kernels import ops, softmax
from kernels.frontier import columns
from kernels.frontier.columns_layout import as_columns, unit_bytes
from kernels.frontier.columns_plans import choose
from kernels.frontier.frontier import NAMES, gpu
from kernels.frontier.plans import Shape
from tests.gpu.memory import needs

pytestmark = [pytest.mark.gpu]

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
NEAR = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
SHAPES = (
    (1, 2048, 2048), (1, 512, 512), (1, 8192, 1000), (1, 100_003, 32), (1, 70_001, 256),
    (1, 64, 100_003), (8, 1024, 512), (3, 1000, 7), (5000, 30, 2), (20_000, 4, 3), (16, 5, 4099),
    (2, 1, 33), (1, 30_000, 24), (1, 65_536, 64),
)  # fmt: skip
# Gaps after rows and slabs and elements past a line, of x and of the results.
LAYOUTS = (
    ((0, 0, 0), (0, 0, 0)), ((0, 0, 1), (0, 0, 1)), ((8, 16, 0), (0, 0, 0)), ((3, 5, 2), (0, 2, 4)),
)  # fmt: skip


def placed(
    shape: tuple[int, int, int], gap: int, more: int, offset: int, fill: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """A tensor with gaps after rows and slabs, ``offset`` elements past a line, and its memory."""
    outer, cols, inner = shape
    step = inner + gap
    size = outer * (cols * step + more) + 256
    memory = torch.full((size,), fill, dtype=dtype, device="cuda")
    return memory.as_strided(shape, (cols * step + more, step, 1), 64 + offset), memory


def hostile(x: Tensor) -> None:
    """Places that are masked throughout or in part, and with NaN or inf."""
    cols = x.shape[1]
    x.copy_(4 * torch.randn(x.shape, device="cuda"))
    x[0, :, 0] = -math.inf
    x[-1, -1, -1] = math.nan
    if x.shape[2] > 3:
        x[0, 0, 1] = math.inf
        x[0, : cols - 1, 2] = -math.inf
        x[-1, :, 3] = -200.0 + torch.randn(cols, device="cuda")
        x[-1, : cols // 2, 3] = -math.inf


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_columns_are_right_in_any_memory_and_nothing_else_is_written(
    shape: tuple[int, int, int], dtype: torch.dtype
):
    for (of_x, of_out), log in product(LAYOUTS, (False, True)):
        x, _ = placed(shape, *of_x, math.nan, dtype)
        out, memory = placed(shape, *of_out, 7.0, dtype)
        hostile(x)
        columns.softmax(x, 1, out.fill_(math.nan), log)
        exact = (torch.log_softmax if log else torch.softmax)(x.double(), 1)
        torch.testing.assert_close(
            out.double(), exact, rtol=NEAR[dtype], atol=5e-5 if log else 1e-7, equal_nan=True
        )
        out.fill_(7.0)
        assert bool((memory == 7.0).all()), (of_x, of_out)


BANDS = (
    ((1, 70_001, 256), (16, 16, 256, 1, 3, 6, 6, 1)),
    ((1, 8192, 4096), (16, 8, 512, 1, 2, 6, 16, 0)),
    ((3, 5000, 520), (16, 8, 256, 1, 4, 6, 16, 1)),
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "sizes"), BANDS, ids=str)
def test_bands_are_right_again_and_again(
    shape: tuple[int, int, int], sizes: tuple[int, ...], dtype: torch.dtype
):
    by = Shape("bands", sizes)
    for (of_x, of_out), log in product(LAYOUTS[::2], (False, True)):
        x, _ = placed(shape, *of_x, math.nan, dtype)
        out, memory = placed(shape, *of_out, 7.0, dtype)
        hostile(x)
        columns.softmax(x, 1, out.fill_(math.nan), log, by)
        exact = (torch.log_softmax if log else torch.softmax)(x.double(), 1)
        torch.testing.assert_close(
            out.double(), exact, rtol=NEAR[dtype], atol=5e-5 if log else 1e-7, equal_nan=True
        )
        first = bits(out).clone()
        for _ in range(100):
            columns.softmax(x, 1, out.fill_(math.nan), log, by)
            assert torch.equal(bits(out), first)
        out.fill_(7.0)
        assert bool((memory == 7.0).all()), (of_x, of_out)


def bits(x: Tensor) -> Tensor:
    """NaN is equal to none: its bits are."""
    return x.view(torch.int32 if x.element_size() == 4 else torch.int16)


def test_these_shapes_take_every_regime():
    found = set()
    for shape, dtype in product(SHAPES, DTYPES):
        x = torch.empty(shape, dtype=dtype, device="meta")
        lies = as_columns(x.shape, x.stride(), 1)
        if lies is None:
            continue
        size, device = x.element_size(), gpu(torch.cuda.current_device())
        unit = unit_bytes(size, lies.inner * size)
        chosen = choose(lies, size, unit, False, device.arch, device.multiprocessors)
        found |= {(p.shape.regime, p.shape.sizes[3]) for p in chosen.plans}
    regimes = {regime for regime, _ in found}
    assert regimes == {"held", "partials", "results"}
    if torch.cuda.get_device_capability()[0] >= 9:
        assert {("held", 1), ("held", 2), ("held", 8), ("held", 16)} <= found


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_public_function_takes_no_copy(dtype: torch.dtype):
    assert dtype in NAMES
    for shape, dim in (
        ((2048, 1000), 0),
        ((4, 512, 256), 1),
        ((200_000, 64), 0),
        ((20, 30, 40, 50), 1),
    ):
        x = torch.randn(shape, device="cuda").to(dtype)
        y, expected = softmax(x, dim), torch.softmax(x.double(), dim)
        torch.testing.assert_close(y.double(), expected, rtol=NEAR[dtype], atol=1e-7)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        y = softmax(x, dim)
        used = torch.cuda.max_memory_allocated() - before
        assert used < 2 * x.nbytes  # the result, and less than a copy beside it
        softmax(x, dim, out=x)
        torch.testing.assert_close(x.double(), expected, rtol=NEAR[dtype], atol=1e-7)
        leaf = y.detach().requires_grad_()
        opcheck(ops.softmax, (leaf, dim, None, False))


@pytest.mark.usefixtures("collected")
def test_two_looks_work_in_a_graph_and_in_several_streams():
    xs = [torch.randn(200_000, 32, device="cuda") for _ in range(4)]
    expected = [torch.softmax(x, 0) for x in xs]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in xs]
    results = []
    for x, stream in zip(xs, streams, strict=True):
        with torch.cuda.stream(stream):
            results.append([softmax(x, 0) for _ in range(20)])
    torch.cuda.synchronize()
    for many, right in zip(results, expected, strict=True):
        for y in many:
            torch.testing.assert_close(y, right)
    x, graph = xs[0].clone(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = softmax(softmax(x, 0) * 100, 0)
    for other in xs:
        x.copy_(other)
        graph.replay()
        torch.testing.assert_close(y, torch.softmax(torch.softmax(other, 0) * 100, 0))


@pytest.mark.large
def test_more_places_than_32_bits_of_bytes_are_counted():
    rows, places = 3, 2**30 + 8
    needs(3 * 2 * rows * places)
    x = torch.empty(rows, places, dtype=torch.bfloat16, device="cuda")
    x[0], x[1], x[2] = 1.0, 2.0, 3.0
    y = softmax(x, 0)
    right = torch.softmax(torch.tensor([1.0, 2.0, 3.0]), 0).bfloat16()
    for row in range(rows):
        assert bool((y[row] == right[row].item()).all())
