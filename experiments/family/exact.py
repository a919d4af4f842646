"""How far a result is from float64's, row by row."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from experiments.family.later import check, torch
from experiments.family.operator import Error

if TYPE_CHECKING:
    from torch import Tensor

    from experiments.family.operator import Case

CHUNK_ELEMENTS = 2**25
# From some rows of each tensor: what is exact (float64), and the unit in which an error counts.
Exact = Callable[..., "tuple[Tensor, Tensor]"]


def relative(case: Case) -> tuple[float, float]:
    """The tolerance of a softmax of this dtype, and the least value that errors are relative to."""
    tolerance, floor = check.TOLERANCE[getattr(torch, case.dtype)]
    return tolerance, floor / tolerance


def largest_error(got: Tensor, exact: Exact, *tensors: Tensor) -> float:
    """The largest error of ``got`` (rows, cols) in its unit; infinite where one is NaN.

    ``exact`` is asked for some rows of ``tensors`` at a time.
    """
    worst, step = 0.0, max(1, CHUNK_ELEMENTS // max(1, got.shape[1]))
    for start in range(0, got.shape[0], step):
        part = slice(start, start + step)
        target, unit = exact(*(t[part] for t in tensors))
        error = float((got[part].double() - target).abs_().div_(unit).amax())
        worst = max(worst, math.inf if math.isnan(error) else error)
    return worst


def flat(x: Tensor) -> Tensor:
    """``x`` (..., cols) as rows."""
    return x.reshape(-1, x.shape[-1])


def softmax(x: Tensor, factor: float = 1.0, least: float = 0.0) -> tuple[Tensor, Tensor]:
    """``factor`` * softmax(``x``), whose errors are relative to each element."""
    target = torch.softmax(x.double(), -1) * factor
    return target, target.clamp_min(least)


def log_softmax(x: Tensor) -> tuple[Tensor, Tensor]:
    """log_softmax(``x``), whose errors are relative to each element, and to 1 if that is more."""
    target = torch.log_softmax(x.double(), -1)
    return target, target.abs().clamp_min(1.0)


def softmax_error(case: Case, x: Tensor, y: Tensor, factor: float = 1.0) -> Error:
    """Of ``y`` = ``factor`` * softmax(``x``), both (..., cols)."""
    tolerance, least = relative(case)
    exact = partial(softmax, factor=factor, least=least)
    return Error(largest_error(flat(y), exact, flat(x)), tolerance)


def log_softmax_error(case: Case, x: Tensor, y: Tensor) -> Error:
    """Of ``y`` = log_softmax(``x``), both (..., cols)."""
    tolerance, _ = relative(case)
    return Error(largest_error(flat(y), log_softmax, flat(x)), tolerance)


def equal_bits(x: Tensor, y: Tensor) -> Error:
    """Of a ``y`` that is to be ``x``, bit for bit."""
    same = bool(torch.equal(x.view(torch.uint8), y.view(torch.uint8)))
    return Error(0.0 if same else math.inf, 0.0, "difference of a copy")
