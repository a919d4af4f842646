"""What does a mask cost a softmax of attention's scores, beyond the bytes of the mask?

Predicts nothing but those: masks asked for ahead of the row's vectors let the plain softmax's
bandwidth stand, counting each element of the mask once a row that has it, though a mask of all
heads comes from the L2 after the first; a causal row's hidden half is not read.  Compared: torch's
masked_fill or sum with a softmax after it, as it is and compiled.
"""

from __future__ import annotations

import math
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
)
from experiments.family.others import COMPILED, PLAIN_SOFTMAX, compiled, copies
from kernels.registry import ELEMENT_BYTES

if TYPE_CHECKING:
    from torch import Tensor

FULL, OF_HEADS, ADDED, CAUSAL = "boolean", "boolean, one for all heads", "additive", "causal"
SCALED = "causal, scaled"  # as attention's scores are
TENSOR_BYTES = 2**29
HEADS = 16
SEEN = 0.9  # of a boolean mask's elements
SCALE = 0.125  # of heads of 64 elements; a power of two, so that torch's steps round nothing


def of_scores(asked: str, dtype: str, length: int, tensor_bytes: int = TENSOR_BYTES) -> Case:
    """Scores (B, H, S, S) of about ``tensor_bytes``."""
    matrices = max(1, tensor_bytes // (length**2 * ELEMENT_BYTES[dtype]))
    heads = min(HEADS, matrices)
    shape = (matrices // heads, heads, length, length)
    return Case(asked, dtype, shape, math.prod(shape[:-1]), length)


CASES = (
    *(
        of_scores(asked, dtype, length)
        for asked in (FULL, OF_HEADS, ADDED, CAUSAL, SCALED)
        for dtype in ("bfloat16", "float32")
        for length in (256, 1024, 4096)
    ),
    *(of_scores(asked, "bfloat16", 16_384) for asked in (FULL, CAUSAL)),
)


def tensors(case: Case, device: str, seed: int) -> tuple[Tensor, ...]:
    """Planted scores, the mask (of a causal one what torch's steps take), where a copy goes."""
    dtype = getattr(torch, case.dtype)
    x = check.planted(case.rows, case.cols, dtype, device, seed)
    return given(case, x, seed)


def given(case: Case, x: Tensor, seed: int) -> tuple[Tensor, ...]:
    x = x.view(case.shape)
    return x, _mask(case, x.device, seed), torch.empty_like(x)


def _mask(case: Case, device: torch.device, seed: int) -> Tensor:
    batches, heads, *matrix = case.shape
    if case.asked in (CAUSAL, SCALED):
        return torch.ones(matrix, dtype=torch.bool, device=device).tril()
    generator = torch.Generator(device).manual_seed(seed + 1)
    shape = (batches, 1 if case.asked == OF_HEADS else heads, *matrix)
    seen = torch.empty(shape, dtype=torch.bool, device=device).bernoulli_(SEEN, generator=generator)
    seen[..., 0] = True  # no row is masked throughout
    if case.asked != ADDED:
        return seen
    bias = torch.empty(shape, dtype=getattr(torch, case.dtype), device=device)
    return bias.normal_(generator=generator).masked_fill_(~seen, -math.inf)


def in_float64(case: Case, tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Of an additive mask's sums as they are."""
    x, mask, _ = tensors
    if case.asked == ADDED:
        return exact.softmax(x.double() + mask.double())
    return exact.softmax(_scores(case, x).masked_fill(~mask, -math.inf))


def _scores(case: Case, x: Tensor) -> Tensor:
    return x * SCALE if case.asked == SCALED else x


def error(case: Case, tensors: tuple[Tensor, ...], result: Any) -> Error:
    """Of an additive mask's sums as they are rounded to the dtype, or as they are, if nearer.

    torch's operators round them, as ours do; its compiler does not.
    """
    x, mask, _ = tensors
    if case.asked != ADDED:
        return exact.softmax_error(case, _scores(case, x).masked_fill(~mask, -math.inf), result)
    rounded = exact.softmax_error(case, x + mask, result)
    if rounded.value <= rounded.most:
        return rounded
    whole = exact.softmax_error(case, x.float() + mask.float(), result)
    return min(rounded, whole, key=lambda error: error.value)


def n_bytes(case: Case) -> int:
    """Scores that are seen, results, and a mask's element for each score."""
    if case.asked in (CAUSAL, SCALED):
        seen = case.rows // case.cols * (case.cols * (case.cols + 1) // 2)
        return seen * case.size + case.tensor_bytes
    of_mask = case.size if case.asked == ADDED else 1
    return 2 * case.tensor_bytes + case.elements * of_mask


def ours(case: Case, device: str) -> Call:
    """The public function."""
    if case.asked == CAUSAL:
        return lambda x, *_: kernels.softmax(x, is_causal=True)
    if case.asked == SCALED:
        return lambda x, *_: kernels.softmax(x, scale=SCALE, is_causal=True)
    return lambda x, mask, _: kernels.softmax(x, mask=mask)


def steps(case: Case, device: str) -> Call:
    """The composition of torch's operators."""
    if case.asked == ADDED:
        return lambda x, mask, _: (x + mask).softmax(-1)
    return lambda x, mask, _: _scores(case, x).masked_fill(~mask, -math.inf).softmax(-1)


OPERATOR = Operator(
    cases=CASES,
    quick=tuple(c for c in chosen(CASES, 1024, dtype="bfloat16") if c.asked != OF_HEADS),
    smoke=tuple(
        of_scores(asked, "float32", 9, 4 * 9 * 9 * 6)
        for asked in (FULL, OF_HEADS, ADDED, CAUSAL, SCALED)
    ),
    tensors=tensors,
    outputs=1,
    error=error,
    n_bytes=n_bytes,
    implementations=(
        Implementation(OURS, ours),
        PLAIN_SOFTMAX,
        Implementation(TORCH, steps),
        Implementation(COMPILED, lambda case, device: compiled(steps(case, device), case, device)),
        *copies(to=-1),
    ),
    code=(
        "api.py",
        "operators.py",
        "frontier/frontier.py",
        "frontier/tables/*.json",
        *(f"frontier/tables/{kind}/*.json" for kind in ("causal", "chosen", "added")),
        "regimes",
    ),
    accuracy=Accuracy(
        cases=tuple(
            of_scores(asked, "float32", length, 4 * 2 * length**2)
            for asked in (FULL, ADDED, CAUSAL)
            for length in (781, 1024)
        ),
        small=tuple(of_scores(a, "float32", 33, 4 * 2 * 33**2) for a in (FULL, ADDED, CAUSAL)),
        given=given,
        exact=in_float64,
    ),
    aims=(
        Aim(
            "G8.1", "bandwidth with a mask over the plain softmax's", "fraction_of_plain",
            least=0.95,
        ),
    ),
)  # fmt: skip
