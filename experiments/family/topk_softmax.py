"""How long does it take to find the k largest probabilities of a vocabulary?

Predicts one read of the logits: several times the speed of torch's softmax and topk for few of
them, less as k grows and candidates are many.  Compared: torch.softmax and torch.topk, in either
order, compiled too, and FlashInfer's top_k of the logits with torch's logsumexp beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kernels
from experiments.family.later import check, launch, torch
from experiments.family.operator import (
    OURS,
    TORCH,
    Accuracy,
    Call,
    Case,
    Error,
    Implementation,
    Operator,
    ahead,
    chosen,
    in_rows,
)
from experiments.family.others import COMPILED, compiled, copies
from experiments.grids import ACCURACY_SHAPES, ACCURACY_SMALL

if TYPE_CHECKING:
    from torch import Tensor

INDEX_BYTES = 8
SHAPES = (
    *((k, rows, 128_256) for k in (1, 8) for rows in (1, 64)),
    *((50, rows, 128_256) for rows in (1, 16, 64, 256)),
    *((50, rows, cols) for cols in (32_000, 262_144) for rows in (1, 64)),
    *((128, rows, 128_256) for rows in (1, 64)),
)


def asked(k: int) -> str:
    return f"k={k}"


def k_of(case: Case) -> int:
    return int(case.asked.removeprefix("k="))


CASES = tuple(
    in_rows(asked(k), dtype, rows, cols)
    for dtype in ("bfloat16", "float32")
    for k, rows, cols in SHAPES
)


def tensors(case: Case, device: str, seed: int) -> tuple[Tensor, ...]:
    """Planted logits."""
    return (check.planted(case.rows, case.cols, getattr(torch, case.dtype), device, seed),)


def given(case: Case, x: Tensor, seed: int) -> tuple[Tensor, ...]:
    return (x,)


def in_float64(case: Case, tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Of the values; where they are is right or wrong."""
    values = torch.softmax(tensors[0].double(), -1).topk(k_of(case)).values
    return values, values


def error(case: Case, tensors: tuple[Tensor, ...], result: Any) -> Error:
    """Of the values, and of the probabilities at their indices; equal ones may change places."""
    from kernels.outputs import TopK

    values, indices = result
    verdict = check.check(tensors[0], TopK(values, indices.long()))
    tolerance = check.TOLERANCE[tensors[0].dtype][0]
    return Error(verdict.max_rel_err, tolerance, told=verdict.reason)


def n_bytes(case: Case) -> int:
    return case.tensor_bytes + case.rows * k_of(case) * (case.size + INDEX_BYTES)


def ours(case: Case, device: str) -> Call:
    """The public function."""
    k = k_of(case)
    return lambda x: kernels.topk_softmax(x, k)


def steps(case: Case, device: str) -> Call:
    k = k_of(case)
    return lambda x: x.softmax(-1).topk(k)


def topk_first(case: Case, device: str) -> Call:
    k = k_of(case)

    def call(x: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = x.topk(k)
        return probabilities(x, values), indices

    return call


def probabilities(x: Tensor, values: Tensor) -> Tensor:
    """Those of ``values``, some logits of ``x``."""
    sums = torch.logsumexp(x.float(), -1, keepdim=True)
    return (values.float() - sums).exp().to(x.dtype)


def flashinfer(case: Case, device: str) -> Call:
    launch.load("flashinfer")
    from flashinfer import top_k  # pyright: ignore[reportMissingImports]

    k = k_of(case)

    def call(x: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = top_k(x, k, sorted=True)
        return probabilities(x, values), indices

    return call


OPERATOR = Operator(
    cases=CASES,
    quick=tuple(c for c in chosen(CASES, 128_256, dtype="bfloat16") if k_of(c) == 50)[::2],
    smoke=(in_rows(asked(1), "float32", 3, 33), in_rows(asked(8), "bfloat16", 3, 33)),
    tensors=tensors,
    error=error,
    n_bytes=n_bytes,
    implementations=(
        Implementation(OURS, ours, repeats=True),
        Implementation(TORCH, steps),
        Implementation("torch_topk_first", topk_first),
        Implementation(COMPILED, lambda case, device: compiled(steps(case, device), case, device)),
        Implementation("flashinfer", flashinfer),
        *copies(),
    ),
    code=("topk.py", "frontier/choice.py", "frontier/topk.cu"),
    accuracy=Accuracy(
        cases=tuple(in_rows(asked(50), "float32", *shape) for shape in ACCURACY_SHAPES),
        small=tuple(in_rows(asked(50), "float32", *shape) for shape in ACCURACY_SMALL),
        given=given,
        exact=in_float64,
    ),
    aims=(
        ahead("G13.1", "a top-k softmax", TORCH, 2.0),
        ahead("G13.2", "a top-k softmax", COMPILED),
        ahead("G13.3", "a top-k softmax", "flashinfer"),
    ),
)
