"""Operators beside the softmax that leave it as it is, so that tuning can check what it times."""

from collections.abc import Callable

import torch

from kernels.frontier.frontier import softmax
from kernels.frontier.operators import Causal, Operator, matrix
from kernels.frontier.plans import Shape


def neutral(kind: str, rows: int, cols: int) -> Operator:
    """An operator of ``kind``, one of TUNED, that leaves a softmax as it is."""
    match kind:
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


def run_triangle(x: torch.Tensor, out: torch.Tensor, shape: Shape) -> torch.Tensor:
    """The causal softmax whose time counts: rows see half of the columns on average, not all."""
    rows, cols = x.shape
    count = min(rows, cols)
    return softmax(
        x, out, shape=shape, operator=Operator(mask=Causal(count, (cols - count) // 2 + 1))
    )
