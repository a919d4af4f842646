"""How long does a decoding step wait for its token: temperature, top-k, top-p?

Predicts one read of the logits for temperature and top-k of 50, and a few from the L2 for top-p,
where torch sorts: ahead of it by more the more rows there are.  Compared: torch's softmax, topk,
sort and multinomial, and FlashInfer's sampling.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import kernels
from experiments.family.later import check, launch, sampling_torch, torch
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
from experiments.family.others import copies
from experiments.grids import ACCURACY_SHAPES, ACCURACY_SMALL
from kernels.registry import DTYPES

if TYPE_CHECKING:
    from torch import Tensor

TEMPERATURE, TOP_K, TOP_P, SEED = 0.7, 50, 0.9, 20_261_122
WARM, OF_K, OF_P, OF_BOTH = "temperature", "top-k 50", "top-p 0.9", "top-k 50, top-p 0.9"
ASKED = (WARM, OF_K, OF_P, OF_BOTH)
ID_BYTES = 8
# An error is seen where a row's two largest sums are closer than it: as many rows as take seconds.
DRAWN = ((8192, 781), *ACCURACY_SHAPES[1:])
# Of the probability before a token: sums in float32 end some tokens sooner or later.
MASS_OFF = 1e-3
SHAPES = {
    "float32": (
        *((rows, 128_256) for rows in (1, 4, 16, 64, 256)),
        *((rows, cols) for cols in (32_000, 262_144) for rows in (1, 64)),
    ),
    "bfloat16": ((1, 128_256), (64, 128_256)),
}
CASES = tuple(
    in_rows(asked, dtype, *shape)
    for dtype, shapes in SHAPES.items()
    for asked in ASKED
    for shape in shapes
)


def tensors(case: Case, device: str, seed: int) -> tuple[Tensor, ...]:
    """Planted logits."""
    return (check.planted(case.rows, case.cols, getattr(torch, case.dtype), device, seed),)


def limits(case: Case) -> tuple[int | None, float | None]:
    """The top-k and the top-p that are asked for."""
    top_k = TOP_K if case.asked in (OF_K, OF_BOTH) else None
    return top_k and min(top_k, case.cols), TOP_P if case.asked in (OF_P, OF_BOTH) else None


def error(case: Case, tensors: tuple[Tensor, ...], result: Any) -> Error:
    """By how much the least likely token lies outside of those that are kept.

    A token is kept if fewer than k have larger logits, and these less than top-p of the sum of
    those that top-k keeps.  The excess counts as a share of that sum, each token too many as 1.
    """
    measure = "probability beyond what is kept"
    (x,), ids = tensors, result.long().view(-1, 1)
    if ids.shape[0] != case.rows or bool(((ids < 0) | (ids >= case.cols)).any()):
        return Error(math.inf, MASS_OFF, measure)
    top_k, top_p = limits(case)
    logits = x.double() / TEMPERATURE
    mine = logits.gather(1, ids)
    ahead = logits > mine
    worst = 0.0
    if top_k is not None:
        worst = float((ahead.sum(1) - (top_k - 1)).clamp_min(0).max())
        logits = logits.masked_fill(logits < logits.topk(top_k).values[:, -1:], -math.inf)
    if top_p is not None:
        before = torch.softmax(logits, -1).masked_fill(~ahead, 0.0).sum(1)
        worst = max(worst, float((before - top_p).clamp_min(0.0).max()))
    return Error(worst, MASS_OFF, measure)


def offset(case: Case) -> int:
    """Other random numbers for whatever is asked, and for each dtype."""
    return ASKED.index(case.asked) * len(DTYPES) + DTYPES.index(case.dtype)


def given(case: Case, x: Tensor, seed: int) -> tuple[Tensor, ...]:
    return (x,)


def noisy(case: Case, x: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of logit / T and Gumbel noise in float64, of which a token has the largest.

    -inf where top-k does not keep it.  And the magnitudes that are summed.
    """
    rows, cols = x.shape
    word = sampling_torch.words(rows, cols, SEED, offset(case), x.device)
    u = (word.double() + 0.5) * 2.0**-32
    logits, noise = x.double() / TEMPERATURE, -torch.log(-torch.log1p(-u))
    sums, top_k = logits + noise, limits(case)[0]
    if top_k is not None:
        after = torch.sort(x, dim=-1, descending=True, stable=True).indices[:, top_k:]
        sums.scatter_(1, after, -math.inf)
    return sums, logits.abs() + noise.abs()


def largest(case: Case, tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """A token's sum lacks nothing of its row's largest, in whose last places errors count."""
    sums, of = noisy(case, *tensors)
    best = sums.argmax(1, keepdim=True)
    return torch.zeros(case.rows, dtype=torch.float64, device=sums.device), of.gather(1, best)[:, 0]


def lacking(case: Case, tensors: tuple[Tensor, ...], ids: Tensor) -> Tensor:
    """What the sums of tokens lack of the largest, in float32; infinite where they are not kept."""
    sums, _ = noisy(case, *tensors)
    return (sums.amax(1) - sums.gather(1, ids[:, None])[:, 0]).float()


def n_bytes(case: Case) -> int:
    return case.tensor_bytes + ID_BYTES * case.rows


def ours(case: Case, device: str) -> Call:
    """The public function."""
    top_k, top_p = limits(case)
    at = offset(case)
    return lambda x: kernels.sample(
        x, temperature=TEMPERATURE, top_k=top_k, top_p=top_p, seed=SEED, offset=at
    )


def steps(case: Case, device: str) -> Call:
    """As model code samples: what is kept in descending order, then a draw from it."""
    top_k, top_p = limits(case)

    def call(x: Tensor) -> Tensor:
        x, columns = x.float() / TEMPERATURE, None
        if top_k is not None:
            x, columns = x.topk(top_k)
        elif top_p is not None:
            x, columns = x.sort(descending=True)
        p = x.softmax(-1)
        if top_p is not None:
            p = p.masked_fill(p.cumsum(-1) - p >= top_p, 0.0)
        drawn = p.multinomial(1)
        return (drawn if columns is None else columns.gather(1, drawn)).squeeze(1)

    return call


def flashinfer(case: Case, device: str) -> Call:
    launch.load("flashinfer")
    from flashinfer import sampling  # pyright: ignore[reportMissingImports]

    told = {"seed": SEED, "offset": 0}
    match case.asked:
        case "temperature":
            return lambda x: sampling.sampling_from_logits(x.float() / TEMPERATURE, **told)
        case "top-k 50":
            return lambda x: sampling.top_k_sampling_from_probs(
                sampling.softmax(x.float(), TEMPERATURE), TOP_K, **told
            )
        case "top-p 0.9":
            return lambda x: sampling.top_p_sampling_from_probs(
                sampling.softmax(x.float(), TEMPERATURE), TOP_P, **told
            )
    return lambda x: sampling.top_k_top_p_sampling_from_logits(
        x.float() / TEMPERATURE, TOP_K, TOP_P, **told
    )


OPERATOR = Operator(
    cases=CASES,
    quick=tuple(c for c in chosen(CASES, 128_256, dtype="float32") if c.rows == 16),
    smoke=tuple(in_rows(asked, "float32", 3, 99) for asked in ASKED),
    tensors=tensors,
    error=error,
    n_bytes=n_bytes,
    implementations=(
        Implementation(OURS, ours, repeats=True),
        Implementation(TORCH, steps),
        Implementation("flashinfer", flashinfer),
        *copies(),
    ),
    code=(
        "sampling.py",
        "frontier/choice.py",
        "frontier/sampling.cu",
        "frontier/nucleus.cu",
    ),
    accuracy=Accuracy(
        cases=tuple(in_rows(a, "float32", *s) for a in (WARM, OF_K) for s in DRAWN),
        small=tuple(in_rows(a, "float32", *s) for a in (WARM, OF_K) for s in ACCURACY_SMALL),
        given=given,
        exact=largest,
        compared=lacking,
        implementations=(OURS,),  # the random numbers of others are their own
    ),
    aims=(ahead("G14.1", "sampling", TORCH, 2.0), ahead("G14.2", "sampling", "flashinfer")),
)
