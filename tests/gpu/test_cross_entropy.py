"""kernels.cross_entropy on the GPU: right in any memory, in place, in graphs, compiled."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.library import opcheck
from torch.nn import functional
from torch.testing import assert_close

from kernels import cross_entropy
from kernels import cross_entropy_ops as ops
from kernels.frontier.cross_entropy import Terms

pytestmark = [pytest.mark.gpu]

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
NEAR = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
WIDTHS = (1, 7, 63, 256, 1000, 4097, 20_001, 50_257, 131_072, 262_144, 300_001, 1_000_003)
IGNORED = -100


def exact(
    x: Tensor, target: Tensor, terms: Terms, weight: Tensor | float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Losses, lses and weighted gradients in float64; where the target is no class, NaN."""
    wide, cols = x.detach().double().requires_grad_(), x.shape[1]
    ignored = target == terms.ignore_index
    wrong = ~ignored & ((target < 0) | (target >= cols))
    loss = functional.cross_entropy(
        wide, target.long().masked_fill(wrong | ignored, -1), ignore_index=-1, reduction="none",
        label_smoothing=terms.label_smoothing,
    )  # fmt: skip
    lse = torch.logsumexp(wide, -1)
    if terms.z_loss:
        loss = loss + torch.where(ignored, 0.0, terms.z_loss * lse.square())
    factors = torch.as_tensor(weight, device=x.device).double().expand(len(x))
    (grad,) = torch.autograd.grad(loss, wide, factors)
    grad[wrong] = math.nan
    grad[ignored] = 0.0
    loss, lse = loss.detach().masked_fill(wrong, math.nan), lse.detach()
    return loss, lse if terms.every else lse.masked_fill(ignored, 0.0), grad


def close(mine: Tensor, right: Tensor, near: float) -> None:
    assert_close(mine.double(), right, rtol=near, atol=near, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cols", WIDTHS)
def test_losses_and_gradients_are_right_in_any_memory(cols: int, dtype: torch.dtype):
    rows = max(7, min(300, 2**20 // cols))
    every = (Terms(IGNORED, 0.0, 0.0, False), Terms(0, 0.1, 1e-3, True))
    for n, (gap, at, to) in enumerate(((0, 0, 0), (0, 1, 1), (0, 1, 4), (5, 3, 0))):
        around = [
            torch.full((rows * (cols + gap) + 64,), fill, dtype=dtype, device="cuda")
            for fill in (math.nan, 7.0)
        ]
        x, grad = (
            memory.as_strided((rows, cols), (cols + gap, 1), 16 + offset)
            for memory, offset in zip(around, (at, to), strict=True)
        )
        x.copy_(4 * torch.randn(rows, cols, device="cuda"))
        x[3, ::2] = -math.inf
        x[4] += 512.0
        for terms in every:
            target = torch.randint(cols, (rows,), device="cuda")
            target[:3] = torch.tensor([terms.ignore_index, cols, -7])
            target = target.int() if n % 2 else target
            for weight in (None, torch.tensor(0.25, device="cuda"), torch.rand(rows).cuda()):
                right = exact(x, target, terms, 1.0 if weight is None else weight)
                loss, lse = ops.into(x, target, weight, terms, grad.fill_(math.nan))
                alone = ops.into(x, target, None, terms, None)
                for losses, lses in ((loss, lse), alone):
                    close(losses, right[0], 5e-5)
                    close(lses, right[1], 5e-5)
                close(grad, right[2], NEAR[dtype])
                kept = x.clone()
                ops.into(x, target, weight, terms, x)
                close(x, right[2], NEAR[dtype])
                x.copy_(kept)
        grad.fill_(7.0)
        x.fill_(math.nan)
        assert bool((around[1] == 7.0).all()), (cols, n)
        assert bool(around[0].isnan().all()), (cols, n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("inplace", [False, True])
def test_gradients_reach_what_made_the_logits(inplace: bool, reduction: str, dtype: torch.dtype):
    if inplace and reduction == "none":
        pytest.skip("is refused")
    for shape in ((40, 1000), (5, 8, 50_257)):
        leaf = torch.randn(shape, device="cuda", dtype=dtype).requires_grad_()
        target = torch.randint(shape[-1], shape[:-1], device="cuda")
        target[..., 0] = IGNORED
        for factor in (1.0, 0.5):
            loss: Any = cross_entropy(
                leaf * 1, target, reduction=reduction, label_smoothing=0.1, inplace=inplace
            )
            (grad,) = torch.autograd.grad(factor * loss.sum(), leaf)
            flat, classes = leaf.detach().view(-1, shape[-1]), target.view(-1)
            by = factor / int((classes != IGNORED).sum()) if reduction == "mean" else factor
            right = exact(flat, classes, Terms(IGNORED, 0.1, 0.0, False), by)
            close(grad.view_as(flat), right[2], NEAR[dtype])


def test_a_target_that_is_no_class_is_told_and_its_row_alone_is_nan():
    x = torch.randn(100, 1000, device="cuda")
    target = torch.randint(1000, (100,), device="cuda")
    target[[50, 70]] = torch.tensor([1000, -1], device="cuda")
    with pytest.raises(IndexError, match="got 1000 in row 50"):
        cross_entropy(x, target, check=True)
    rows: Any = cross_entropy(x, target, reduction="none")
    assert rows.isnan().nonzero().flatten().tolist() == [50, 70]


def test_targets_are_counted():
    for rows in (0, 1, 1000, 65_537):
        for index in (torch.int32, torch.int64):
            target = torch.randint(50, (rows,), device="cuda").to(index)
            target[::3] = IGNORED
            target[rows // 2 :: 1000] = 50
            weight, wrong = ops.cross_entropy_targets(target, 50, IGNORED)
            right = ops._torch_targets(target, 50, IGNORED)
            assert_close(weight, right[0])
            assert wrong.item() == right[1].item()


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_scaled_where_they_are(dtype: torch.dtype):
    for shape in ((3, 50_257), (4097, 63), (2, 5, 1000)):
        x = torch.randn(shape, device="cuda", dtype=dtype)
        for by in (1.0, -0.375):
            right = (x.float() * by).to(dtype)
            ops.scale(x, torch.tensor(by, device="cuda"))
            assert torch.equal(x, right)


def test_the_operators_keep_pytorchs_rules():
    for dtype in DTYPES:
        x = torch.randn(4, 60, device="cuda", dtype=dtype).requires_grad_()
        target = torch.tensor([0, 59, IGNORED, 3], device="cuda")
        opcheck(ops.cross_entropy, (x, target, IGNORED, 0.1, 1e-3, True))
        weight = torch.rand(4, device="cuda")
        opcheck(ops.cross_entropy_grad, (x, target, weight, IGNORED, 0.1, 1e-3, True))
        opcheck(ops.cross_entropy_targets, (target, 60, IGNORED))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("cols", [1000, 50_257, 300_001])
def test_it_compiles_as_one_graph(mode: str, cols: int):
    torch._dynamo.reset()

    def step(x: Tensor, target: Tensor) -> Any:
        return cross_entropy(2 * x, target, label_smoothing=0.1)

    compiled = torch.compile(step, fullgraph=True, mode=mode)
    for seed in range(4):  # graphs are captured at the second call, and replayed from the third
        torch.manual_seed(seed)
        x = torch.randn(48, cols, device="cuda", dtype=torch.bfloat16)
        target = torch.randint(cols, (48,), device="cuda")
        mine, theirs = (x.clone().requires_grad_() for _ in range(2))
        loss, right = compiled(mine, target), step(theirs, target)
        assert_close(loss.clone(), right, atol=1e-3, rtol=1e-3)
        loss.backward()
        right.backward()
        assert mine.grad is not None
        assert theirs.grad is not None
        assert_close(mine.grad, theirs.grad)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("cols", [1000, 50_257, 600_001])
@pytest.mark.usefixtures("collected")
def test_a_foreign_capture_needs_no_warm_up(cols: int, inplace: bool):
    rows = 41 + cols % 7  # a shape that no other test has prepared
    x = torch.randn(rows, cols, device="cuda").requires_grad_()
    target = torch.randint(cols, (rows,), device="cuda")
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        loss: Any = cross_entropy(x * 1, target, inplace=inplace)
        (grad,) = torch.autograd.grad(loss, x)
    for seed in range(3):
        torch.manual_seed(seed)
        with torch.no_grad():
            x.copy_(torch.randn(rows, cols, device="cuda"))
        target.copy_(torch.randint(cols, (rows,), device="cuda"))
        target[seed] = IGNORED
        graph.replay()
        right = exact(x, target, Terms(IGNORED, 0.0, 0.0, False), 1 / (rows - 1))
        close(loss.detach(), right[0].sum() / (rows - 1), 5e-5)
        close(grad, right[2], 2e-5)
    waits = pytest.raises(RuntimeError, match=r"check=True.*leave check=True away")
    with waits, torch.cuda.graph(torch.cuda.CUDAGraph()):
        cross_entropy(x, target, check=True)


def test_more_than_two_to_the_31_elements_are_indexed_whole():
    if torch.cuda.get_device_properties(0).total_memory < 40 * 2**30:
        pytest.skip("needs 40 GiB of GPU memory")
    rows, cols = 2**16 + 3, 2**15 + 8
    x = torch.empty(rows, cols, dtype=torch.bfloat16, device="cuda").normal_()
    target = torch.randint(cols, (rows,), device="cuda")
    last, terms = slice(rows - 5, rows), Terms(IGNORED, 0.0, 0.0, False)
    right = exact(x[last], target[last], terms)
    loss, _ = ops.into(x, target, None, terms, x)
    close(loss[last], right[0], 5e-5)
    close(x[last], right[2], NEAR[torch.bfloat16])


def test_a_second_gpu_is_served():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x = torch.randn(32, 50_257, device="cuda:1").requires_grad_()
    target = torch.randint(50_257, (32,), device="cuda:1")
    loss: Any = cross_entropy(x, target)
    loss.backward()
    assert x.grad is not None
    right = exact(x, target, Terms(IGNORED, 0.0, 0.0, False), 1 / 32)
    close(x.grad, right[2], 2e-5)
    assert torch.cuda.current_device() == 0
