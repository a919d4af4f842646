"""The largest probabilities of rows, and samples of rows: alone and in parts, by every way."""

from collections.abc import Iterator
from itertools import chain, product

import torch
from torch import Tensor

from experiments.check import TOLERANCE, planted
from experiments.launches import Gpu
from experiments.watched.case import Case, differs
from experiments.watched.guarded import Guarded
from kernels import sampling, sampling_torch, topk
from kernels.frontier import choice as kernels
from kernels.frontier import choice_plans as plans
from kernels.frontier.plans import Plan
from kernels.registry import DTYPES

# Rows by themselves, and in two and three parts; elements before the first row.
SHARE, TOP_SHARE = plans.LEAST_SHARE, plans.LEAST_TOP_SHARE
WIDTHS = (7, 1000, TOP_SHARE - 1, TOP_SHARE, TOP_SHARE + 1, 2 * TOP_SHARE, 2 * TOP_SHARE + 1)
ROWS = 6  # one each of ties, of -inf, of NaN among others, ascending, of +inf
KEPT = (1, 8, 50, plans.MOST_TOP)
# Top-k and top-p: all ways that rows go.
LIMITS = (
    (None, 1.0), (1, 1.0), (50, 1.0), (plans.MOST_TOP, 0.8), (plans.MOST_TOP + 1, 1.0),
    (1000, 0.7), (None, 0.9), (None, 1e-9),
)  # fmt: skip
INVERSE_TEMPERATURE, SEED, OFFSET = 2.0, 2**40 + 7, 2**40


def top(gpu: Gpu) -> Iterator[Case]:
    """Every number that is kept, of the row's sum and of theirs, in every dtype and width."""
    every = product(WIDTHS, DTYPES, (True, False))
    for number, (cols, dtype, whole) in enumerate(every):
        # Widths move the turns on: else one number would always be of the row's sum.
        k = KEPT[(number + WIDTHS.index(cols)) % len(KEPT)]
        yield _top(dtype, cols, min(k, cols), whole, number % 3)


def samples(gpu: Gpu) -> Iterator[Case]:
    """Every way at every width, in turns of dtypes."""
    every = ((limits, cols) for limits in LIMITS for cols in _astride(limits[0]))
    for number, ((top_k, top_p), cols) in enumerate(every):
        k = top_k and min(top_k, cols)
        dtype = DTYPES[(number + number // 3) % len(DTYPES)]  # another at each way's widths
        yield _sample(dtype, ROWS, cols, k, top_p, number % 2, gpu)


def _astride(top_k: int | None) -> tuple[int, ...]:
    """Widths of rows with fewer elements than are kept, of one part and of two."""
    share = TOP_SHARE if top_k and top_k <= plans.MOST_TOP else SHARE
    return 7, share, share + 1


def hostile(cols: int, dtype: str, device: str, seed: int) -> Tensor:
    """Planted rows, and what makes an order ambiguous."""
    x = planted(ROWS, cols, getattr(torch, dtype), device, seed)
    generator = torch.Generator(device).manual_seed(seed + 1)
    x[1] = torch.randint(-3, 4, (cols,), generator=generator, device=device).to(x.dtype)
    x[2] = -torch.inf
    x[3, cols // 2] = torch.nan
    x[4] = torch.arange(cols, device=device).to(x.dtype) / 64
    x[5, cols // 3] = torch.inf
    return x


def _top(dtype: str, cols: int, k: int, whole: bool, before: int) -> Case:
    def launch(device: str, seed: int) -> str:
        return run_top(dtype, cols, k, whole, before, device, seed)

    of = "the row" if whole else "these"
    kernels_of = plans.CANDIDATES[whole], plans.TOP[whole]
    return Case(f"the largest {k} of {of}", dtype, ROWS, cols, kernels_of, launch)


def run_top(
    dtype: str, cols: int, k: int, whole: bool, before: int, device: str, seed: int
) -> str:  # fmt: skip
    """Launch a top-k; what is wrong with its values and indices, or ''."""
    guarded = Guarded(device)
    values = hostile(cols, dtype, device, seed)
    x = guarded.given(values, before, (3 * before, 0))
    p = guarded.wanted((ROWS, k), values.dtype, before)
    indices = guarded.wanted((ROWS, k), torch.int64)
    if device == "cpu":
        for to, made in zip((p, indices), topk.operator(x, k, whole), strict=True):
            to.copy_(made)
    else:
        kernels.topk_softmax(x, k, whole, p, indices)
    wide, order = torch.sort(values.double(), dim=-1, descending=True, stable=True)
    wide, order = wide[:, :k], order[:, :k]
    if not torch.equal(indices, order):
        return differs("indices", indices, order.double(), 0.0, 0.0)
    exact = torch.softmax(values.double(), -1).gather(-1, order)
    exact = exact if whole else torch.softmax(wide, -1)
    return differs("values", p, exact, *TOLERANCE[values.dtype]) or guarded.fault()


def _sample(
    dtype: str, rows: int, cols: int, k: int | None, p: float, before: int, gpu: Gpu
) -> Case:  # fmt: skip
    def launch(device: str, seed: int) -> str:
        return run_sample(dtype, rows, cols, k, p, before, device, seed)

    parts = plans.parts_of(rows, plans.most_parts(cols), gpu.multiprocessors)
    what = f"a sample, top-k {k or 'all'}, top-p {p:g}"
    return Case(what, dtype, rows, cols, plans_of(rows, cols, k, p, parts), launch)


def plans_of(rows: int, cols: int, k: int | None, p: float, parts: int) -> tuple[Plan, ...]:
    """What a sample launches."""
    top_k = k if k is not None and k < cols else None
    if top_k is not None and top_k <= plans.MOST_TOP:
        return plans.CANDIDATES[False], plans.SAMPLE_OF_TOP
    if top_k is None and p < 1.0:
        again = plans.nucleus_left(rows, cols, parts, p) > plans.MOST_LEFT
        return tuple(chain.from_iterable(plans.nucleus_turns(again)))
    narrowed = top_k is not None
    looks = (plans.HIGHEST, plans.NARROW) if narrowed else ()
    return (*looks, plans.SAMPLE[narrowed], *([plans.CHOSEN] if parts > 1 else ()))


def run_sample(
    dtype: str, rows: int, cols: int, k: int | None, p: float, before: int, device: str, seed: int
) -> str:
    """Launch a sample; which ids differ from those that torch computes on the CPU, or ''."""
    guarded = Guarded(device)
    x = guarded.given(hostile(cols, dtype, device, seed)[:rows], before, (3 * before, 0))
    ids = guarded.wanted((rows,), torch.int64, 1)
    told = k, p, SEED + seed, OFFSET
    right = sampling_torch.sample(x.cpu(), INVERSE_TEMPERATURE, *told)
    if device == "cpu":
        ids.copy_(sampling.operator(x, 1 / INVERSE_TEMPERATURE, *told))
    else:
        chance = kernels.Chance(SEED + seed, OFFSET, INVERSE_TEMPERATURE, k, p)
        kernels.sample(x, chance, ids)
    return differs("ids", ids.cpu(), right.double(), 0.0, 0.0) or guarded.fault()
