"""Operators whose result tuning can check: the softmax as it is, or its logarithm."""

import math
from collections.abc import Callable

import torch

from experiments.check import TOLERANCE, Verdict
from experiments.family import exact
from kernels.frontier.frontier import softmax
from kernels.frontier.operators import Causal, Operator, matrix
from kernels.frontier.plans import Shape


def neutral(kind: str, rows: int, cols: int) -> Operator:
    """An operator of ``kind``, one of KINDS, that leaves a softmax, or its logarithm, as it is."""
    match kind:
        case "log":
            return Operator(log=True)
        case "factors":
            return Operator()
        case "causal":
            return Operator(mask=Causal(1, cols))
    return Operator(mask=matrix((rows, cols), (cols, 1), kind == "chosen"))


def run_neutral(kind: str) -> Callable[..., torch.Tensor]:
    """The softmax by such an operator, for ``measure``; its masks are made once a shape."""
    masks: dict[torch.Size, torch.Tensor] = {}

    def run(x: torch.Tensor, out: torch.Tensor, shape: Shape) -> torch.Tensor:
        if kind == "chosen" and x.shape not in masks:
            masks[x.shape] = torch.ones_like(x, dtype=torch.bool)
        if kind == "added" and x.shape not in masks:
            masks[x.shape] = torch.zeros_like(x)
        operator = neutral(kind, len(x), x.shape[1])
        return softmax(x, out, shape=shape, operator=operator, mask=masks.get(x.shape))

    return run


def check_log(x: torch.Tensor, y: torch.Tensor) -> Verdict:
    """Compare ``y`` with the float64 logarithm of the softmax of ``x``, both (rows, cols)."""
    worst, most = exact.largest_error(y, exact.log_softmax, x), TOLERANCE[x.dtype][0]
    reason = "" if worst <= most else f"error {worst:.3g} of a logarithm exceeds {most:g}"
    return Verdict(worst, math.nan, reason)


def run_triangle(x: torch.Tensor, out: torch.Tensor, shape: Shape) -> torch.Tensor:
    """The causal softmax whose time counts: rows see half of the columns on average, not all."""
    rows, cols = x.shape
    count = min(rows, cols)
    return softmax(
        x, out, shape=shape, operator=Operator(mask=Causal(count, (cols - count) // 2 + 1))
    )
