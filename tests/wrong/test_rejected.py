"""The checker rejects every mistake, on the input that is there to show it, and nothing else."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from experiments.check import Verdict, check, planted
from experiments.correctness import Case, cases
from tests.reference import DEVICE
from tests.wrong import arithmetic, outputs, tiles

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
    (tiles.padding_in_the_sum, "planted", ALL),
    (tiles.capped_block, "planted", ALL),
    (tiles.sum_not_rescaled, "planted", ALL),
]
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


def label(value: object) -> str | None:
    return getattr(value, "__name__", None) or str(value).removeprefix("torch.")


def verdict(fn: Softmax, case: Case) -> Verdict:
    x = case.x.clone()
    fn(case.x, case.out)
    return check(x, case.out)


@pytest.mark.parametrize(("fn", "name", "dtype"), EACH, ids=label)
def test_a_mistake_is_rejected_on_its_case(fn: Softmax, name: str, dtype: torch.dtype):
    verdicts = [verdict(fn, case) for case in cases(dtype, DEVICE) if case.name == name]
    assert [v.reason for v in verdicts if not v.ok]


@pytest.mark.parametrize("dtype", ALL, ids=label)
def test_the_right_one_is_accepted_everywhere(dtype: torch.dtype):
    verdicts = [(case.name, verdict(right, case)) for case in cases(dtype, DEVICE)]
    assert [(name, v.reason) for name, v in verdicts if not v.ok] == []


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
