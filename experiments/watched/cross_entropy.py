"""Cross-entropies of rows, with their gradient and without; what counts targets; what scales."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, product

import torch
from torch import Tensor
from torch.nn import functional

from experiments.check import TOLERANCE, planted
from experiments.launches import Gpu
from experiments.watched.case import Case, astride, differs, rows_of
from experiments.watched.guarded import Guarded
from kernels import cross_entropy_ops as ops
from kernels.frontier import cross_entropy as kernels
from kernels.frontier.cross_entropy import Terms
from kernels.frontier.cross_entropy_plans import (
    INDICES,
    SCALE,
    TARGETS,
    WARP_THREADS,
    CrossEntropyPlan,
    cross_entropy_plan,
    plan_of,
)
from kernels.frontier.plans import ALIKE, APART, HOPPERS, NONE, VECTOR_BYTES, Shape
from kernels.registry import ELEMENT_BYTES

IGNORED = -100
PLAIN, SMOOTH = Terms(IGNORED, 0.0, 0.0, False), Terms(0, 0.1, 1e-3, True)
# Losses and lses, in float32; a gradient's elements relative to what they are a difference of.
NEAR, OF_GRADIENT = 5e-5, {"float32": 5e-5, "float16": 2e-3, "bfloat16": 1e-2}
# Elements before logits and after each of their rows, and the same of gradients, by the edges that
# gives.
PLACES = {NONE: ((0, 0), (0, 0)), ALIKE: ((1, 0), (1, 0)), APART: ((3, 5), (0, 0))}
SHAPES = {
    Shape("warp", (32, WARP_THREADS)): (256, 501),
    Shape("block", (256, 4)): (4096, 3001),
    Shape("cluster", (512, 2, 2)): (8192, 6001),
    Shape("cluster", (512, 16, 2)): (16_384, 17_001),
    Shape("stream", (512, 1)): (8192, 9001),
    Shape("stream", (512, 4)): (16_384, 20_001),
}
# By dtype, with the gradient or without, edges: what has thresholds of its own.
ASTRIDE = (
    *((dtype, True, edges) for dtype in ("float32", "bfloat16") for edges in (NONE, ALIKE)),
    ("float32", False, NONE),
)
OF_LOSS = ("warp", "stream")  # without a gradient nothing is held
WRONG = -7  # no class


@dataclass(frozen=True)
class Asked:
    """Beside the terms: whether the gradient is written, where, and times what."""

    terms: Terms
    gradient: bool
    index: str
    weights: int | None = None  # of each row, or one for all; None for none
    in_place: bool = False


def cases(gpu: Gpu) -> Iterator[Case]:
    """Astride every threshold, every kind of loss by every regime, and the two other kernels."""
    turns = _turns()
    for dtype, gradient, edges in ASTRIDE:
        size = ELEMENT_BYTES[dtype]

        def shape_of(
            cols: int, size: int = size, edges: int = edges, gradient: bool = gradient
        ) -> Shape:
            return cross_entropy_plan(
                rows_of(cols, least=3), cols, size, edges, gpu.arch, gpu.multiprocessors, gradient,
                False, "int64", gpu.name,
            ).shape  # fmt: skip

        for cols in astride(shape_of, 1 if edges else VECTOR_BYTES // size):
            asked = next(turn for turn in turns if turn.gradient == gradient)
            yield _case(asked, shape_of(cols), dtype, cols, edges)
    kinds = cycle((("float16", ALIKE), ("float32", NONE), ("bfloat16", APART)))
    for (shape, (whole, odd)), (terms, gradient) in product(
        SHAPES.items(), product((PLAIN, SMOOTH), (True, False))
    ):
        if (shape.regime in OF_LOSS or gradient) and (
            gpu.arch in HOPPERS or shape.sizes[1:2] == (1,) or shape.regime in ("warp", "block")
        ):
            dtype, edges = next(kinds)
            asked = next(t for t in turns if (t.terms, t.gradient) == (terms, gradient))
            edges = edges if gradient else min(edges, ALIKE)
            yield _case(asked, shape, dtype, odd if edges else whole, edges)
    for rows, index in product((1, 1000, 1025), INDICES):
        yield _targets(rows, index)
    for dtype, (rows, cols, before) in product(
        ELEMENT_BYTES, ((3, 2048, 0), (40, 63, 1), (2, 8193, 1))
    ):
        yield _scale(dtype, rows, cols, before)


def _turns() -> Iterator[Asked]:
    """Kinds of losses, again and again."""
    every = product((PLAIN, SMOOTH), INDICES, (None, 1, 2))
    for terms, index, weights in cycle(tuple(every)):
        yield Asked(terms, True, index, weights, in_place=weights == 1)
        yield Asked(terms, False, index)


def _case(asked: Asked, shape: Shape, dtype: str, cols: int, edges: int) -> Case:
    rows = rows_of(cols, least=3)
    if asked.in_place and edges == APART:
        edges = ALIKE
    size = ELEMENT_BYTES[dtype]
    plan = plan_of(
        shape, cols, size, edges, asked.gradient, asked.terms.label_smoothing != 0.0, asked.index
    )

    def launch(device: str, seed: int) -> str:
        return run(asked, shape, dtype, rows, cols, edges, device, seed)

    what = "loss and gradient" if asked.gradient else "loss"
    return Case(what + " in place" * asked.in_place, dtype, rows, cols, (plan,), launch)


def run(
    asked: Asked, shape: Shape, dtype: str, rows: int, cols: int, edges: int, device: str, seed: int
) -> str:
    """Launch a cross-entropy; what is wrong with losses, lses and gradients, or ''."""
    kind, guarded, terms = getattr(torch, dtype), Guarded(device), asked.terms
    generator = torch.Generator(device).manual_seed(seed + 1)
    values = planted(rows, cols, kind, device, seed)
    classes = torch.randint(cols, (rows,), generator=generator, device=device)
    classes[0] = terms.ignore_index
    if device != "cpu":  # torch's, which computes there, raises an error
        classes[1] = WRONG
    target = guarded.given(classes.to(getattr(torch, asked.index)), 1)
    weight = None
    if asked.weights:
        shape_of = (rows,) if asked.weights > 1 else (1,)
        weight = torch.empty(shape_of, device=device).uniform_(0.25, 1.0, generator=generator)
        weight = guarded.given(weight, 3)
    (before_x, gap_x), (before_grad, gap_grad) = PLACES[edges]
    if asked.in_place:
        x = grad = guarded.wanted((rows, cols), kind, before_x, (gap_x, 0))
        x.copy_(values)
    else:
        x, grad = guarded.given(values, before_x, (gap_x, 0)), None
        if asked.gradient:
            grad = guarded.wanted((rows, cols), kind, before_grad, (gap_grad, 0))
    loss, lse = (guarded.wanted((rows,), torch.float32, 1) for _ in range(2))
    if device == "cpu":
        given = weight if weight is None else weight.expand(rows)
        made = ops.cross_entropy_grad(
            x, target, given, terms.ignore_index, terms.label_smoothing, terms.z_loss, terms.every
        )
        for to, result in zip((loss, lse, grad), made, strict=True):
            if to is not None:
                to.copy_(result)
    else:
        kernels.cross_entropy(x, target, terms, loss, lse, grad, weight, shape)
    right = exact(values, classes, terms, weight)
    reason = differs("losses", loss, right[0], NEAR, NEAR)
    reason = reason or differs("lses", lse, right[1], NEAR, NEAR)
    if grad is not None and not reason:
        # As many units as it is off, beside 0.
        off = torch.where(right[2].isnan(), grad.double(), (grad - right[2]) / right[3])
        wanted = torch.zeros_like(off).masked_fill(right[2].isnan(), torch.nan)
        reason = differs("units of a gradient", off, wanted, 0.0, OF_GRADIENT[dtype])
    return reason or guarded.fault()


def exact(
    x: Tensor, target: Tensor, terms: Terms, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Losses, lses, weighted gradients, and the magnitudes these come from, in float64.

    Where a target is no class, losses and gradients are NaN.
    """
    wide, cols = x.detach().double().requires_grad_(), x.shape[1]
    ignored = target == terms.ignore_index
    wrong = ~ignored & ((target < 0) | (target >= cols))
    classes = target.masked_fill(wrong | ignored, -1)
    loss = functional.cross_entropy(
        wide, classes, ignore_index=-1, reduction="none", label_smoothing=terms.label_smoothing
    )
    lse = torch.logsumexp(wide, -1)
    if terms.z_loss:
        loss = loss + torch.where(ignored, 0.0, terms.z_loss * lse.square())
    factors = torch.ones(len(x), dtype=torch.float64, device=x.device)
    factors = factors if weight is None else factors * weight.double()
    (grad,) = torch.autograd.grad(loss, wide, factors)
    grad[wrong] = torch.nan
    grad[ignored] = 0.0
    loss, lse = loss.detach().masked_fill(wrong, torch.nan), lse.detach()
    unit = torch.softmax(wide.detach(), -1).clamp_min(1 / cols)
    unit += torch.zeros_like(unit).scatter_(1, classes.clamp_min(0)[:, None], 1.0)
    # The smallest normal number of 16 bits is a unit at least.
    unit = (unit * factors[:, None]).clamp_min(TOLERANCE[x.dtype][1] / TOLERANCE[x.dtype][0])
    return loss, lse if terms.every else lse.masked_fill(ignored, 0.0), grad, unit


def _targets(rows: int, index: str) -> Case:
    def launch(device: str, seed: int) -> str:
        return run_targets(rows, index, device, seed)

    plan = CrossEntropyPlan(TARGETS, 0, NONE, (), INDICES[index])
    return Case(f"{rows} targets of {index}", "float32", rows, 50, (plan,), launch)


def run_targets(rows: int, index: str, device: str, seed: int, cols: int = 50) -> str:
    """Count targets; what is wrong with their number or with the first that is no class, or ''."""
    guarded = Guarded(device)
    generator = torch.Generator(device).manual_seed(seed)
    classes = torch.randint(cols, (rows,), generator=generator, device=device)
    classes[::3] = IGNORED
    classes[rows // 2 :: 100] = cols
    target = guarded.given(classes.to(getattr(torch, index)), 1)
    weight, wrong = guarded.wanted((), torch.float32), guarded.wanted((), torch.int64)
    if device == "cpu":
        made = ops.cross_entropy_targets(target, cols, IGNORED)
        weight.copy_(made[0])
        wrong.copy_(made[1])
    else:
        kernels.targets(target, cols, IGNORED, weight, wrong)
    found = classes.tolist()
    counts = sum(each != IGNORED for each in found)
    if abs(weight.item() * counts - 1.0) > NEAR:
        return f"1 / {counts} targets is {weight.item():.6g}"
    first = next((i for i, each in enumerate(found) if each == cols), -1)
    if wrong.item() != first:
        return f"the first target that is no class is {first}, not {wrong.item()}"
    return guarded.fault()


def _scale(dtype: str, rows: int, cols: int, before: int) -> Case:
    def launch(device: str, seed: int) -> str:
        return run_scale(dtype, rows, cols, before, device, seed)

    return Case("scale", dtype, rows, cols, (CrossEntropyPlan(SCALE, 0, ALIKE),), launch)


def run_scale(dtype: str, rows: int, cols: int, before: int, device: str, seed: int) -> str:
    """Multiply rows where they are; what is wrong with them, or ''."""
    kind, guarded = getattr(torch, dtype), Guarded(device)
    values = planted(rows, cols, kind, device, seed)
    factor = guarded.given(torch.tensor(-0.375))
    x = guarded.wanted((rows, cols), kind, before, (5 * before, 0))
    x.copy_(values)
    right = (values.float() * factor).to(kind)
    if device == "cpu":
        x.copy_(x.float() * factor)
    else:
        kernels.scale(x, factor)
    return differs("products", x, right.double(), 0.0, 0.0) or guarded.fault()
