"""What ncu is to watch of the operators: cases that are timed, and calls that are known again."""

import pytest

from experiments.family import OPERATORS
from experiments.family.counts import (
    IMPLEMENTATIONS,
    WATCHED,
    Watched,
    call_of,
    label,
    watched,
)
from experiments.family.operator import OURS, TORCH
from experiments.family.tables import CASE
from experiments.ncu import BadReport

# An H200's holds 60 MB, and no GPU's that this is to run on more than 126.
L2_BYTES = 126e6
CELL = '648  "<default domain>:{}:none:none:none:none:none:none" '


def test_every_operator_is_watched_but_that_of_the_others_calls():
    assert [*WATCHED, "calls"] == list(OPERATORS)


@pytest.mark.parametrize("name", WATCHED)
def test_what_is_watched_is_timed_and_no_l2_holds_it(name: str):
    operator, cases = OPERATORS[name], WATCHED[name]
    assert set(cases) <= set(operator.cases)
    assert 1 <= len(set(cases)) == len(cases) <= 3
    assert set(IMPLEMENTATIONS) <= {each.name for each in operator.implementations}
    assert all(operator.n_bytes(case) > L2_BYTES for case in cases)


def test_ours_and_torchs_are_watched_case_by_case():
    calls = watched()
    assert IMPLEMENTATIONS == (OURS, TORCH)
    assert len(calls) == len(set(calls)) == 2 * sum(map(len, WATCHED.values()))
    assert all(one.case == other.case for one, other in zip(calls[::2], calls[1::2], strict=True))
    asked = {(call.operator, call.case.asked) for call in calls}
    assert asked >= {
        ("attention", "full, D=128"), ("attention", "causal, D=128"), ("masks", "causal"),
        ("cross_entropy", "loss"), ("cross_entropy", "loss and gradient"), ("columns", "tall"),
        ("topk_softmax", "k=50"), ("sample", "top-p 0.9"),
    }  # fmt: skip


@pytest.mark.parametrize("call", watched(), ids=label)
def test_a_label_comes_back(call: Watched):
    assert call_of(CELL.format(label(call))) == call
    # Whatever a library has put around its kernels.
    assert call_of(CELL.format(label(call)) + CELL.format("cudnn")) == call


@pytest.mark.parametrize(
    "text", ["masks ours 2", "calls ours 0", "masks flashinfer 0", "warm-up", "masks ours x"]
)
def test_another_range_is_no_call(text: str):
    with pytest.raises(BadReport, match=f"in the range '.*{text}.*'; expected that of a call"):
        call_of(CELL.format(text))
    with pytest.raises(BadReport, match="in the range ''"):
        call_of("")


def test_a_case_has_the_columns_of_every_table():
    case = WATCHED["columns"][0]
    assert list(case.columns) == CASE
    assert case.columns["shape"] == "1x1000000x64"
    assert str(watched()[0]) == f"factors, ours: {WATCHED['factors'][0]}"
