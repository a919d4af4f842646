"""The checker rejects every wrong top-k, on the input that is there to show it."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from experiments.check import TOLERANCE, Verdict, check, planted
from experiments.correctness import Case, cases
from kernels.outputs import TopK, spoilt
from tests.reference import DEVICE
from tests.wrong import topk

Top = Callable[[Tensor, TopK], TopK]
ALL = (torch.float32, torch.float16, torch.bfloat16)
K = 8
BENCHMARK = (64, 50_257)
# What is wrong, and the case that must show it.
MISTAKES: list[tuple[Top, str]] = [
    (topk.nothing, "planted"),
    (topk.unsorted, "planted"),
    (topk.neighbours_swapped, "planted"),
    (topk.one_index_twice, "planted"),
    (topk.one_index_twice, "all equal"),
    (topk.half_of_the_row, "planted"),
    (topk.half_of_the_row_alone, "planted"),
    (topk.without_the_last, "planted"),
    (topk.without_the_last, "a row of -inf"),
    (topk.the_next_for_the_last, "planted"),
    (topk.not_normalised, "planted"),
    (topk.normalised_among_themselves, "planted"),
    (topk.logits, "planted"),
    (topk.neighbouring_columns, "planted"),
    (topk.columns_of_nobody, "a row of -inf"),
    (topk.columns_of_nobody, "-inf but for three columns"),
    (topk.equals_once, "all equal"),
    (topk.zeros_for_nan, "one nan"),
]
WIDE = [fn for fn, case in MISTAKES if case == "planted"]


def label(value: object) -> str | None:
    return getattr(value, "__name__", None) or str(value).removeprefix("torch.")


def top_cases(dtype: torch.dtype) -> Iterator[Case]:
    """What K columns or more are asked for, wide enough for one more, and for half of them."""
    return (case for case in cases(dtype, DEVICE, K) if case.x.shape[1] >= 2 * K)


def verdict(fn: Top, case: Case) -> Verdict:
    assert isinstance(case.out, TopK)
    x = case.x.clone()
    fn(case.x, case.out)
    return check(x, case.out)


@pytest.mark.parametrize(("fn", "name"), MISTAKES, ids=label)
@pytest.mark.parametrize("dtype", ALL, ids=label)
def test_a_mistake_is_rejected_on_its_case(fn: Top, name: str, dtype: torch.dtype):
    verdicts = [verdict(fn, case) for case in top_cases(dtype) if case.name == name]
    assert [v.reason for v in verdicts if not v.ok]


@pytest.mark.parametrize("dtype", ALL, ids=label)
def test_the_right_one_is_accepted_everywhere(dtype: torch.dtype):
    verdicts = [(case.name, verdict(topk.right, case)) for case in top_cases(dtype)]
    assert [(name, v.reason) for name, v in verdicts if not v.ok] == []
    assert max(v.max_rel_err for _, v in verdicts) > 0 or dtype == torch.float32


@pytest.mark.parametrize("fn", WIDE, ids=label)
@pytest.mark.parametrize("dtype", ALL, ids=label)
def test_a_mistake_is_rejected_at_a_benchmarks_shape(fn: Top, dtype: torch.dtype):
    x = planted(*BENCHMARK, dtype, DEVICE, seed=1)
    assert not check(x, fn(x, empty(x))).ok


@pytest.mark.parametrize("dtype", ALL, ids=label)
def test_the_right_one_is_accepted_at_a_benchmarks_shape(dtype: torch.dtype):
    x = planted(*BENCHMARK, dtype, DEVICE, seed=1)
    assert check(x, topk.right(x, empty(x))).ok


def empty(x: Tensor) -> TopK:
    shape = len(x), K
    return spoilt(TopK(x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)))


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (topk.unsorted, "row 0 is not in descending order"),
        (topk.one_index_twice, "row 0 has an index twice"),
        (topk.nothing, "row 0 has an index outside of it"),
        (topk.not_normalised, "relative error"),
        (topk.neighbouring_columns, "from the probability at its index"),
    ],
    ids=label,
)
def test_the_reason_says_what_is_wrong(fn: Top, reason: str):
    x = planted(5, 781, torch.float32, DEVICE, seed=1)
    assert reason in check(x, fn(x, empty(x))).reason


@pytest.mark.parametrize("dtype", ALL, ids=label)
@pytest.mark.parametrize("column", [0, K - 1])
def test_one_value_just_beyond_the_tolerance_is_rejected(dtype: torch.dtype, column: int):
    # Far enough apart that a value may move by the tolerance and stay in order.
    x = -0.1 * torch.arange(40, device=DEVICE).repeat(20, 1).to(dtype)
    relative, _ = TOLERANCE[dtype]
    for share, ok in ((0.4, True), (2.5, False)):
        top = topk.right(x, empty(x))
        top.values[13, column] = float(top.values[13, column]) * (1 + share * relative)
        assert check(x, top).ok == ok


def test_equal_probabilities_may_take_each_others_place():
    x = torch.zeros(3, 40, device=DEVICE)
    top = topk.right(x, empty(x))
    for first in (0, 17, 32):
        top.indices.copy_(torch.arange(first, first + K, device=DEVICE).flip(0))
        assert check(x, top).ok
