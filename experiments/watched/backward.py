"""Gradients of softmaxes, of their logarithms and of both with factors and masks."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, product

import torch

from experiments.check import planted
from experiments.family import backward as family
from experiments.family.operator import in_rows
from experiments.launches import Gpu
from experiments.watched.case import Case, astride, rows_of
from experiments.watched.guarded import Guarded
from kernels.frontier.backward import Gradient, softmax_backward
from kernels.frontier.backward_plans import (
    STREAM,
    WARP_THREADS,
    backward_plan,
    plan_of,
    possible,
)
from kernels.frontier.plans import VECTOR_BYTES, Shape
from kernels.operators import composed_backward
from kernels.registry import ELEMENT_BYTES

# Powers of two, which round nothing.
SCALE, FACTOR = 2.0, 2.0
PLAIN = Gradient(log=False, scale=1.0, factor=1.0, masked=False)
GRADIENTS = {
    "softmax": None,
    "factors": Gradient(log=False, scale=SCALE, factor=FACTOR, masked=False),
    "logarithm": Gradient(log=True, scale=1.0, factor=1.0, masked=False),
    "masked logarithm": Gradient(log=True, scale=SCALE, factor=FACTOR, masked=True),
}
# Elements before y, its gradient and the result, and after each of their rows.
WHOLE, OFF = ((0, 0, 0), (0, 0, 0)), ((1, 2, 3), (0, 1, 5))
# And such that y and dy of 16 bits lie alike in the fourth row, and in none around it.
TURNS, ONCE_ALIKE = 5, ((1, 6, 3), (0, 1, 5))
SHAPES = {
    Shape("warp", (32, WARP_THREADS)): (256, 501),
    Shape("block", (256, 2)): (4096, 3001),
    Shape("cluster", (512, 2, 2)): (8192, 6001),
    Shape("cluster", (512, 16, 2)): (16_384, 17_001),
    Shape("cluster", (256, 16, 2, 2)): (65_536, 65_001),
    # One team has all rows, one after the other, on a GPU of 67 to 133 multiprocessors.
    Shape("grid", (32, 67, 1, 1)): (26_112, 26_001),
    STREAM: (8192, 9001),
}


def cases(gpu: Gpu) -> Iterator[Case]:
    """Astride every threshold, and every gradient by every regime."""
    of = cycle(GRADIENTS)
    for dtype, lies in product(("float32", "bfloat16"), (WHOLE, OFF)):
        size = ELEMENT_BYTES[dtype]

        def shape_of(cols: int, size: int = size, edges: bool = lies is OFF) -> Shape:
            return backward_plan(cols, size, edges, gpu.arch, gpu.multiprocessors, gpu.name).shape

        for cols in astride(shape_of, VECTOR_BYTES // size if lies is WHOLE else 1):
            yield _case(next(of), dtype, cols, lies, shape_of(cols))
    turns = cycle((("float16", OFF), ("float32", WHOLE), ("bfloat16", OFF)))
    for (shape, (whole, odd)), asked in product(SHAPES.items(), GRADIENTS):
        if not possible(shape, gpu.arch, gpu.multiprocessors):
            continue
        dtype, lies = next(turns)
        lies = ONCE_ALIKE if shape.regime == "grid" and lies is OFF else lies
        yield _case(asked, dtype, whole if lies is WHOLE else odd, lies, shape)


def _case(
    asked: str, dtype: str, cols: int, lies: tuple[tuple[int, ...], ...], shape: Shape
) -> Case:
    of, off = GRADIENTS[asked], lies is not WHOLE
    rows = TURNS if shape.regime == "grid" else rows_of(cols)
    plan = plan_of(shape, cols, ELEMENT_BYTES[dtype], int(off))
    plan = replace(plan, given=(of.type,)) if of else plan

    def launch(device: str, seed: int) -> str:
        return run(of, shape, dtype, rows, cols, lies, device, seed)

    return Case(f"of a {asked}{', off' * off}", dtype, rows, cols, (plan,), launch)


def run(
    of: Gradient | None, shape: Shape, dtype: str, rows: int, cols: int,
    lies: tuple[tuple[int, ...], ...], device: str, seed: int,
) -> str:  # fmt: skip
    """Launch the gradient ``of`` a softmax; what is wrong with it, or ''."""
    kind, told, guarded = getattr(torch, dtype), of or PLAIN, Guarded(device)
    x = planted(rows, cols, kind, device, seed).float()
    hidden = torch.zeros_like(x, dtype=torch.bool)
    generator = torch.Generator(device).manual_seed(seed + 1)
    if told.masked:
        hidden = torch.empty_like(x).uniform_(generator=generator) < 0.3
        hidden[:, 0] = False  # no row is masked throughout
        x = x.masked_fill(hidden, -torch.inf)
    y = (torch.log_softmax(x, -1) if told.log else torch.softmax(x, -1)) * told.factor
    of_y, of_grad, of_out = zip(*lies, strict=True)
    y = guarded.given(y.to(kind), of_y[0], (of_y[1], 0))
    grad = torch.empty(rows, cols, dtype=kind, device=device).normal_(generator=generator)
    grad = guarded.given(grad, of_grad[0], (of_grad[1], 0))
    out = guarded.wanted((rows, cols), kind, of_out[0], (of_out[1], 0))
    if device == "cpu":
        out.copy_(
            composed_backward(
                grad, y, -1, kind, told.log, told.scale, told.factor, told.masked
            )
        )  # fmt: skip
    else:
        softmax_backward(grad, y, out, of, shape)
    if bool(out[hidden].ne(0.0).any()):
        return "what a mask hides has a gradient"
    asked = family.LOG if told.log else family.SOFTMAX
    # Of the gradient that a factor multiplied: without the scale, and as if nothing were hidden.
    grads = grad.double() * told.factor
    plain = torch.where(hidden, grads, out.double() / told.scale)
    tensors = (grads, y.double() / told.factor, out)
    return family.error(in_rows(asked, dtype, rows, cols), tensors, plain).reason or guarded.fault()
