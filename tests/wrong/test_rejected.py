"""The checker rejects every mistake, on the input that is there to show it, and nothing else."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from experiments.check import Verdict, check, planted
from experiments.correctness import Case, cases
from tests.reference import DEVICE
from tests.wrong import arithmetic, online, outputs, tiles

Softmax = Callable[[Tensor, Tensor], Tensor]
ALL = (torch.float32, torch.float16, torch.bfloat16)
HALF = (torch.float16, torch.bfloat16)
FULL = (torch.float32,)

# What is wrong, the case that must show it, and the types in which it is a mistake.
MISTAKES: list[tuple[Softmax, str, tuple[torch.dtype, ...]]] = [
    (outputs.nothing, "planted", ALL),
    (outputs.zeros, "planted", ALL),
    (outputs.uniform, "planted", ALL),
    (outputs.half_a_row, "planted", ALL),
    (outputs.dropped_tail, "planted", ALL),
    (outputs.next_row, "planted", ALL),
    (outputs.by_columns, "planted", ALL),
    (outputs.logarithm, "planted", ALL),
    (outputs.assumed_contiguous, "row stride wider than a row", ALL),
    (outputs.narrow_offsets, "planted", ALL),
    (outputs.misaligned_vectors, "planted", FULL),
    (outputs.misaligned_vectors, "rows off 16 bytes, in and out alike", FULL),
    (arithmetic.no_maximum, "shifted by 1e4", FULL),
    (arithmetic.no_maximum, "one inf", HALF),
    (arithmetic.not_normalised, "planted", ALL),
    (arithmetic.half_the_sum, "planted", ALL),
    (arithmetic.stale_statistics, "planted", ALL),
    (arithmetic.half_precision_sum, "planted", ALL),
    (arithmetic.input_precision_sum, "planted", HALF),
    (arithmetic.sloppy_exponential, "planted", FULL),
    (arithmetic.contracted_shift, "shifted by 1e4", FULL),
    (arithmetic.small_floor, "planted", ALL),
    (arithmetic.finite_minus_infinity, "a row of -inf", ALL),
    (arithmetic.zeros_for_nan, "a row of -inf", ALL),
    (arithmetic.dropped_nan, "one nan", ALL),
    (arithmetic.reads_what_it_wrote, "in place", ALL),
    (arithmetic.empty_partials, "planted", ALL),
    (arithmetic.odd_tree, "planted", ALL),
    (online.masked_start, "-inf columns", ALL),
    (online.masked_start, "-inf for the first 8200 columns", ALL),
    (online.short_block, "planted", ALL),
    (tiles.padding_in_the_sum, "planted", ALL),
    (tiles.capped_block, "planted", ALL),
    (tiles.finite_padding, "a row of -inf", ALL),
    (tiles.sum_not_rescaled, "planted", ALL),
]
# The same code with the mistake put right.
PUT_RIGHT: dict[str, Softmax] = {
    "dropped_tail": partial(outputs.dropped_tail, width=1),
    "narrow_offsets": partial(outputs.narrow_offsets, bits=33),
    "misaligned_vectors": partial(outputs.misaligned_vectors, width=1),
    "odd_tree": partial(arithmetic.odd_tree, threads=512),
    "masked_start": partial(online.masked_start, guarded=True),
    "short_block": partial(online.short_block, guarded=True),
    "padding_in_the_sum": partial(tiles.padding_in_the_sum, padding=-torch.inf),
    "capped_block": partial(tiles.capped_block, cap=None),
    "finite_padding": partial(tiles.finite_padding, padding=-torch.inf),
}
EACH = [(fn, case, dtype) for fn, case, dtypes in MISTAKES for dtype in dtypes]
BENCHMARK = (64, 50_257)
# Run by the column or by the tile, these take seconds at the benchmark's shape.
SLOW = {"half_precision_sum", "input_precision_sum", "padding_in_the_sum", "sum_not_rescaled"}
# Every lane has a column there.
HIDDEN = {"empty_partials"}
WIDE = [
    (fn, dtype)
    for fn, case, dtype in EACH
    if case == "planted" and fn.__name__ not in SLOW | HIDDEN
]


def right(x: Tensor, out: Tensor) -> Tensor:
    """The control: nothing is wrong with this one."""
    return out.copy_(torch.softmax(x.double(), dim=1))


def finite_start(x: Tensor, out: Tensor) -> Tensor:
    """A maximum that starts at -FLT_MAX (S4) is no mistake: a row of -inf gives 0 / 0 = NaN."""
    start = torch.tensor(-arithmetic.MOST, device=x.device)
    numerator = (x.float() - torch.fmax(x.float(), start).amax(dim=1, keepdim=True)).exp()
    return out.copy_(numerator / numerator.sum(dim=1, keepdim=True))


def label(value: object) -> str | None:
    return getattr(value, "__name__", None) or str(value).removeprefix("torch.")


def verdict(fn: Softmax, case: Case) -> Verdict:
    assert isinstance(case.out, Tensor)
    x = case.x.clone()
    fn(case.x, case.out)
    return check(x, case.out)


@pytest.mark.parametrize(("fn", "name", "dtype"), EACH, ids=label)
def test_a_mistake_is_rejected_on_its_case(fn: Softmax, name: str, dtype: torch.dtype):
    verdicts = [verdict(fn, case) for case in cases(dtype, DEVICE) if case.name == name]
    assert [v.reason for v in verdicts if not v.ok]


@pytest.mark.parametrize("fn", [right, finite_start], ids=label)
@pytest.mark.parametrize("dtype", ALL, ids=label)
def test_the_right_one_is_accepted_everywhere(fn: Softmax, dtype: torch.dtype):
    verdicts = [(case.name, verdict(fn, case)) for case in cases(dtype, DEVICE)]
    assert [(name, v.reason) for name, v in verdicts if not v.ok] == []


# -inf - -inf; Triton's interpreter computes in NumPy, which remarks on it.
@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("name", PUT_RIGHT)
@pytest.mark.parametrize("dtype", ALL, ids=label)
def test_a_mistake_put_right_is_accepted_everywhere(name: str, dtype: torch.dtype):
    fn = PUT_RIGHT[name]
    verdicts = [(case.name, verdict(fn, case)) for case in cases(dtype, DEVICE)]
    assert [(case, v.reason) for case, v in verdicts if not v.ok] == []


@pytest.mark.parametrize(("fn", "dtype"), WIDE, ids=label)
def test_a_mistake_is_rejected_at_a_benchmarks_shape(fn: Softmax, dtype: torch.dtype):
    x = planted(*BENCHMARK, dtype, DEVICE, seed=1)
    assert not check(x, fn(x, torch.full_like(x, float("nan")))).ok


@pytest.mark.parametrize("dtype", ALL, ids=label)
def test_the_right_one_is_accepted_at_a_benchmarks_shape(dtype: torch.dtype):
    x = planted(*BENCHMARK, dtype, DEVICE, seed=1)
    assert check(x, right(x, torch.full_like(x, float("nan")))).ok


@pytest.mark.parametrize("fn", [outputs.zeros, outputs.uniform], ids=label)
@pytest.mark.parametrize("dtype", ALL, ids=label)
def test_an_absolute_tolerance_accepts_what_the_checker_rejects(fn: Softmax, dtype: torch.dtype):
    x = torch.randn(BENCHMARK, generator=torch.Generator().manual_seed(1)).to(dtype)
    y, softmax = fn(x, torch.empty_like(x)), torch.softmax(x, dim=1)
    # 1e-2 is what tests of 16-bit kernels commonly take.
    assert torch.allclose(y, softmax, atol=1e-2)
    assert not check(x, y).ok


@pytest.mark.parametrize("fn", [outputs.zeros, outputs.uniform], ids=label)
def test_torchs_own_tolerance_accepts_a_constant_at_a_million_columns(fn: Softmax):
    x = torch.rand(2, 2**20, generator=torch.Generator().manual_seed(1))
    y, softmax = fn(x, torch.empty_like(x)), torch.softmax(x, dim=1)
    torch.testing.assert_close(y, softmax)
    assert not check(x, y).ok
