"""Operators of the frontier's kernels on the GPU, in every regime that has them."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product, repeat

import pytest
import torch
from torch import Tensor
from torch.library import opcheck

import kernels
from experiments.pool import pool
from kernels.compiled import Job
from kernels.cuda_compiler import C_TYPES
from kernels.frontier.backward import Gradient, softmax_backward
from kernels.frontier.compiler import compile_plan
from kernels.frontier.operators import Causal, Matrix, Operator, matrix
from kernels.frontier.plans import ALIKE, APART, NONE, UNMASKED_REGIMES, Plan, Shape
from kernels.launch import architecture
from kernels.operators import composed, composed_backward, softmax_operator
from kernels.registry import DTYPES, ELEMENT_BYTES

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("hopper"),
    pytest.mark.xdist_group("operators"),
]

# Whole vectors of both sizes of elements, and not.
REGIMES = {
    Shape("warp", (32, 64)): (256, 501),
    Shape("warp", (32, 64), together=2, early=False): (256, 501),
    Shape("tile", (8, 128)): (63,),
    Shape("block", (256, 1)): (4096, 6001),
    Shape("block", (256, 1), raw=True): (4096, 6001),
    Shape("block", (256, 1), exchanges=2): (4096, 6001),
    Shape("cluster", (256, 4, 1)): (16_384, 20_001),
    Shape("staged", (512, 1, 1)): (4096, 12_257),
    Shape("grid", (512, 5, 1)): (32_768, 50_257),
    Shape("chunks", (1024, 13, 8, 8, 2, 1, 3)): (131_072, 50_257),
    Shape("stream", (1024,)): (20_000, 20_001),
}
BATCH, HEADS, QUERIES = 2, 3, 4
ROWS = BATCH * HEADS * QUERIES
BOTH, LOG_OF_BOTH = Operator(times=0.375, after=-3.0), Operator(True, 0.375, -3.0)
NEAR = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1e-2}

Case = tuple[Operator, Tensor | None, Tensor]  # and x as it goes into a softmax


def cases(x: Tensor, masked: bool) -> Iterator[Case]:
    """Operators for ``x`` (ROWS, cols)."""
    cols = x.shape[1]
    scaled = x.double() * BOTH.times
    yield Operator(log=True), None, x.double()
    yield BOTH, None, scaled
    yield LOG_OF_BOTH, None, scaled
    if not masked:
        return
    query = torch.arange(ROWS, device=x.device)[:, None] % QUERIES
    for more in (0, cols // 3):
        hidden = torch.arange(cols, device=x.device) >= query + more
        causal = replace(BOTH, mask=Causal(QUERIES, more))
        yield causal, None, scaled.masked_fill(hidden, -math.inf)
    seen = torch.rand(BATCH, 1, QUERIES, cols, device=x.device) < 0.5
    wide = seen.expand(BATCH, HEADS, QUERIES, cols)
    chosen = replace(BOTH, mask=_told(wide))
    yield chosen, wide, scaled.masked_fill(~wide.reshape(ROWS, cols), -math.inf)
    added = torch.randn(1, HEADS, QUERIES, cols + 1, device=x.device).to(x.dtype)[..., 1:]
    wide = added.expand(BATCH, HEADS, QUERIES, cols)
    summed = (scaled + wide.reshape(ROWS, cols).double()).to(x.dtype).double()
    for operator in (BOTH, LOG_OF_BOTH):
        yield replace(operator, mask=_told(wide)), wide, summed


def _told(mask: Tensor) -> Matrix:
    told = matrix(mask.shape, mask.stride(), mask.dtype == torch.bool)
    assert told is not None
    return told


def rows(cols: int, dtype: str) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """x, the place of the results, and the memory around that, full of 7."""
    for offset, to in ((0, 0), (1, 1), (1, 2)):
        memory = torch.full((ROWS * cols + 64,), 7.0, dtype=getattr(torch, dtype), device="cuda")
        wide = torch.empty_like(memory)
        x = wide[16 + offset :][: ROWS * cols].view(ROWS, cols)
        x.copy_(4 * torch.randn(ROWS, cols, device="cuda"))
        yield x, memory[16 + to :][: ROWS * cols].view(ROWS, cols), memory


@pytest.fixture(scope="module", autouse=True)
def compiled(hopper: None) -> None:
    """All kernels of this file, compiled on all cores."""
    with pool("cpu") as processes:
        list(processes.map(_compile, jobs(), repeat(architecture()), chunksize=4))


def jobs() -> list[tuple[Plan, str]]:
    """What this file compiles, each with its dtype."""
    found = {}
    for (shape, widths), dtype in product(REGIMES.items(), DTYPES):
        size, masked = ELEMENT_BYTES[dtype], shape.regime not in UNMASKED_REGIMES
        for cols, edges in product(widths, (NONE, ALIKE, APART)):
            if edges or cols * size % 16 == 0:
                plan = shape.plan(cols, size, edges)
                x = torch.empty(ROWS, cols, dtype=getattr(torch, dtype), device="meta")
                for operator, _, _ in cases(x, masked):
                    types = operator.types(C_TYPES[dtype])
                    found[replace(plan, given=types), dtype] = None
    return list(found)


def _compile(job: tuple[Plan, str], arch: str) -> None:
    plan, dtype = job
    compile_plan(plan, Job("frontier", dtype, arch))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", REGIMES, ids=str)
def test_an_operator_is_right_in_any_memory_and_writes_nothing_else(shape: Shape, dtype: str):
    from kernels.frontier.frontier import softmax

    for cols in REGIMES[shape]:
        for x, out, memory in rows(cols, dtype):
            for operator, mask, wide in cases(x, shape.regime not in UNMASKED_REGIMES):
                out.fill_(math.nan)
                softmax(x, out, shape=shape, operator=operator, mask=mask)
                exact = torch.log_softmax(wide, -1) if operator.log else torch.softmax(wide, -1)
                torch.testing.assert_close(
                    out.double(), exact * operator.after, rtol=NEAR[dtype],
                    atol=5e-5 if operator.log else 1e-7, equal_nan=True,
                )  # fmt: skip
                out.fill_(7.0)
                assert bool((memory == 7.0).all()), (cols, operator)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cols", [63, 1000, 12_257, 131_072, 1_048_576])
def test_the_kernel_that_is_chosen_takes_every_operator(cols: int, dtype: str):
    from kernels.frontier.frontier import softmax

    x = 4 * torch.randn(ROWS, cols, device="cuda").to(getattr(torch, dtype))
    for operator, mask, wide in cases(x, masked=True):
        y = softmax(x, torch.empty_like(x), operator=operator, mask=mask)
        exact = torch.log_softmax(wide, -1) if operator.log else torch.softmax(wide, -1)
        torch.testing.assert_close(
            y.double(), exact * operator.after, rtol=NEAR[dtype],
            atol=5e-5 if operator.log else 1e-7, equal_nan=True,
        )  # fmt: skip


def test_a_regime_that_knows_no_columns_refuses_a_mask():
    from kernels.frontier.frontier import softmax

    x = torch.randn(ROWS, 63, device="cuda")
    with pytest.raises(ValueError, match="cannot serve"):
        softmax(x, x, shape=Shape("tile", (8, 128)), operator=Operator(mask=Causal(QUERIES, 1)))


GRADIENTS = (
    Gradient(log=False, scale=0.5, factor=-2.0, masked=False),
    Gradient(log=True, scale=0.5, factor=-2.0, masked=False),
    Gradient(log=True, scale=1.0, factor=1.0, masked=True),
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cols", [63, 1000, 8192, 50_257, 131_072, 300_001])
def test_an_operators_gradient_is_right(cols: int, dtype: str):
    x = 4 * torch.randn(7, cols, device="cuda")
    for of in GRADIENTS:
        if of.masked:
            x[torch.rand_like(x) < 0.3] = -math.inf
        y = torch.log_softmax(x, -1) if of.log else torch.softmax(x, -1)
        y = (y * of.factor).to(getattr(torch, dtype))
        grad = torch.randn_like(y)
        dx = softmax_backward(grad, y, torch.empty_like(y), of)
        options = -1, torch.float64, of.log, of.scale, of.factor, of.masked
        exact = composed_backward(grad.double(), y.double(), *options)
        near = NEAR[dtype] * (1 + exact.abs().max().item())
        torch.testing.assert_close(dx.double(), exact, atol=near, rtol=NEAR[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [kernels.softmax, kernels.log_softmax])
def test_the_public_functions_are_what_torch_composes(function: Callable[..., Tensor], dtype: str):
    kind = getattr(torch, dtype)
    log = function is kernels.log_softmax
    x = torch.randn(2, 3, 64, 100, device="cuda", dtype=kind)
    seen = torch.rand(2, 1, 64, 100, device="cuda") < 0.7
    seen[0, 0, 5] = False  # NaN throughout, and without a gradient
    added = torch.randn(3, 1, 100, device="cuda", dtype=kind)
    for mask, options in (
        (None, {"scale": 0.5, "factor": 2.0}), (seen, {"scale": 0.5}), (added, {}),
        (None, {"is_causal": True}), (added, {"dim": 2}), (None, {"scale": -1.0}),
    ):  # fmt: skip
        mine, wide = x.clone().requires_grad_(), x.double().requires_grad_()
        y = function(mine, mask=mask, **options)
        as_wide = mask if mask is None or mask.dtype == torch.bool else mask.double()
        arguments = {"dim": -1, "scale": 1.0, "factor": 1.0, "is_causal": False, **options}
        wanted = composed(wide, as_wide, dtype=None, log=log, **arguments)
        near = NEAR[dtype] * 10
        torch.testing.assert_close(y.double(), wanted, atol=near, rtol=near, equal_nan=True)
        grad = torch.randn_like(y).masked_fill(y.isinf(), 0.0)
        y.backward(grad)
        wanted.backward(grad.double())
        assert mine.grad is not None
        assert wide.grad is not None
        torch.testing.assert_close(mine.grad.double(), wide.grad, atol=near, rtol=near)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mask_may_lie_where_out_is_written(dtype: str):
    """A row's results over the next row's mask: a kernel that wrote them would be seen to."""
    kind, rows, cols = getattr(torch, dtype), 65_536, 64
    x = torch.randn(rows, cols, device="cuda", dtype=kind)
    for again in (False, True):
        memory = torch.randn(rows + 1, cols, device="cuda", dtype=kind)
        mask, out = memory[1:], memory[:-1]
        if again:  # by a launch that is known
            kernels.softmax(x, out=torch.empty_like(x), mask=mask)
        expected = kernels.softmax(x, mask=mask)
        assert kernels.softmax(x, out=out, mask=mask) is out
        torch.testing.assert_close(out, expected, atol=0, rtol=0)
        memory.normal_()
        mask, out = memory[:-1], memory[1:]
        expected = kernels.softmax(x, mask=mask)
        kernels.softmax(x, out=out, mask=mask)
        torch.testing.assert_close(out, expected, atol=0, rtol=0)


@pytest.mark.usefixtures("collected")
def test_an_operator_is_captured_in_a_graph():
    x, mask = torch.randn(5, 1000, device="cuda"), torch.rand(1000, device="cuda") < 0.5
    expected = kernels.log_softmax(x, mask=mask, scale=0.5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kernels.log_softmax(x, mask=mask, scale=0.5)
    y.zero_()
    graph.replay()
    assert torch.equal(y, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_operators_keep_pytorchs_rules(dtype: str):
    x = torch.randn(4, 3, 5, device="cuda", dtype=getattr(torch, dtype))
    mask, options = torch.randn_like(x), (-1, None, True, 0.5, 2.0, False, False)
    opcheck(softmax_operator, (x.requires_grad_(), mask, *options))
