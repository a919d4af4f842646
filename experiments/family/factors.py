"""What does a logarithm, a temperature or a factor cost in the kernel that computes the softmax?

Predicts nothing: as fast as the plain softmax of the same bytes but where a cluster's registers are
counted (131,072 columns of 16 bits), and twice or more ahead of torch's composition, which moves
each element twice again a step.  Compared: torch.log_softmax, or torch's steps; the steps compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kernels
from experiments.family import exact
from experiments.family.later import check, torch
from experiments.family.operator import (
    OURS,
    TORCH,
    Accuracy,
    Aim,
    Call,
    Case,
    Error,
    Implementation,
    Operator,
    chosen,
    filled,
    in_rows,
)
from experiments.family.others import COMPILED, PLAIN_SOFTMAX, compiled, copies
from experiments.grids import ACCURACY_SHAPES, ACCURACY_SMALL

if TYPE_CHECKING:
    from torch import Tensor

LOG, FACTORS = "log", "factors"
# Powers of two: 16-bit steps of torch round as one kernel does.
SCALE, FACTOR = 0.125, 2.0
CASES = tuple(
    filled(asked, dtype, cols, 2**29)
    for asked in (LOG, FACTORS)
    for dtype in ("bfloat16", "float32")
    for cols in (256, 4096, 50_257, 131_072)
)


def tensors(case: Case, device: str, seed: int) -> tuple[Tensor, ...]:
    """Planted input, and where a copy of it goes."""
    x = check.planted(case.rows, case.cols, getattr(torch, case.dtype), device, seed)
    return given(case, x, seed)


def given(case: Case, x: Tensor, seed: int) -> tuple[Tensor, ...]:
    return x, torch.empty_like(x)


def in_float64(case: Case, tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    x = tensors[0].double()
    return exact.log_softmax(x) if case.asked == LOG else exact.softmax(x * SCALE, FACTOR)


def error(case: Case, tensors: tuple[Tensor, ...], result: Any) -> Error:
    x = tensors[0]
    if case.asked == LOG:
        return exact.log_softmax_error(case, x, result)
    return exact.softmax_error(case, x * SCALE, result, FACTOR)


def n_bytes(case: Case) -> int:
    return 2 * case.tensor_bytes


def ours(case: Case, device: str) -> Call:
    """The public functions."""
    if case.asked == LOG:
        return lambda x, _: kernels.log_softmax(x)
    return lambda x, _: kernels.softmax(x, scale=SCALE, factor=FACTOR)


def in_torch(case: Case, device: str) -> Call:
    return (lambda x, _: torch.log_softmax(x, -1)) if case.asked == LOG else steps(case, device)


def steps(case: Case, device: str) -> Call:
    """The composition of torch's operators."""
    if case.asked == LOG:
        return lambda x, _: (x - x.float().logsumexp(-1, keepdim=True)).to(x.dtype)
    return lambda x, _: (x * SCALE).softmax(-1) * FACTOR


OPERATOR = Operator(
    cases=CASES,
    quick=chosen(CASES, 4096, dtype="bfloat16"),
    smoke=(in_rows(LOG, "float32", 5, 33), in_rows(FACTORS, "bfloat16", 5, 33)),
    tensors=tensors,
    outputs=1,
    error=error,
    n_bytes=n_bytes,
    implementations=(
        Implementation(OURS, ours),
        PLAIN_SOFTMAX,
        Implementation(TORCH, in_torch),
        Implementation("torch_steps", steps),
        Implementation(COMPILED, lambda case, device: compiled(steps(case, device), case, device)),
        *copies(to=-1),
    ),
    code=(
        "api.py",
        "operators.py",
        "frontier/frontier.py",
        "frontier/tables/*.json",
        *(f"frontier/tables/{kind}/*.json" for kind in (LOG, FACTORS)),
        "regimes",
    ),
    accuracy=Accuracy(
        cases=tuple(in_rows(a, "float32", *s) for a in (LOG, FACTORS) for s in ACCURACY_SHAPES),
        small=tuple(in_rows(a, "float32", *s) for a in (LOG, FACTORS) for s in ACCURACY_SMALL),
        given=given,
        exact=in_float64,
    ),
    aims=(
        Aim(
            "G7.1", "speed of logarithms and factors over the plain softmax", "fraction_of_plain",
            least=0.95,
        ),
    ),
)  # fmt: skip
