"""Operators on the CPU: what is right passes its check, what is wrong does not; bytes."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from experiments.family import OPERATORS, exact, operator_of
from experiments.family.attention import of_tokens
from experiments.family.calls import INTO, of_call, of_heads
from experiments.family.columns import INNER, of_shape
from experiments.family.cross_entropy import (
    GRADIENT,
    IGNORED,
    LOSS,
    SMOOTHING,
    TERMS,
    TERMS_GRADIENT,
    Z_LOSS,
)
from experiments.family.masks import ADDED, CAUSAL, FULL, OF_HEADS, SCALED, of_scores
from experiments.family.operator import OURS, TORCH, Case, Error, in_rows
from experiments.family.others import COMPILED
from experiments.family.sample import ASKED, OF_BOTH, OF_K, OF_P, WARM

EACH = [(name, case) for name, operator in OPERATORS.items() for case in operator.smoke]
Spoil = Callable[[Tensor], Any]


def judged(name: str, case: Case, spoil: Callable[[Any], Any] = lambda result: result) -> Error:
    """What the check says of this project's result, after ``spoil``."""
    operator = OPERATORS[name]
    tensors = operator.tensors(case, "cpu", 1)
    (ours,) = (each for each in operator.implementations if each.name == OURS)
    given = tuple(t.clone() for t in tensors) if ours.overwrites else tensors
    return operator.error(case, tensors, spoil(ours.prepare(case, "cpu")(*given)))


def one_row_zero(y: Tensor) -> Tensor:
    y = y.clone()
    y.view(-1, y.shape[-1])[-1] = 0.0
    return y


def one_nan(y: Tensor) -> Tensor:
    y = y.clone()
    y.view(-1)[-1] = math.nan
    return y


def told(value: object) -> str:
    """A name for a test that is the same in every process."""
    return getattr(value, "__name__", str(value))


def a_tenth_off(y: Tensor) -> Tensor:
    return y * 1.1


def uniform(y: Tensor) -> Tensor:
    return torch.full_like(y, float(y.double().mean()))


def beside(top: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return top[0], top[1] ^ 1


@pytest.mark.parametrize(("name", "case"), EACH, ids=str)
def test_right_results_pass_and_are_far_from_the_tolerance(name: str, case: Case):
    found = judged(name, case)
    assert found.reason == ""
    assert 0 <= found.value <= found.most


WRONG: list[tuple[str, Case, Callable[[Any], Any]]] = [
    (name, case, spoil)
    for name, case in EACH
    if name not in ("topk_softmax", "sample") and case.asked not in (LOSS, TERMS)
    for spoil in (one_row_zero, one_nan, a_tenth_off, uniform)
]  # fmt: skip


@pytest.mark.parametrize(("name", "case", "spoil"), WRONG, ids=told)
def test_wrong_results_do_not(name: str, case: Case, spoil: Spoil):
    found = judged(name, case, spoil)
    assert "exceeds" in found.reason


def test_rows_beyond_the_first_chunk_are_compared_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exact, "CHUNK_ELEMENTS", 2 * 33)
    case = OPERATORS["backward"].smoke[0]
    assert judged("backward", case).reason == ""
    assert "exceeds" in judged("backward", case, one_row_zero).reason


@pytest.mark.parametrize("asked", [LOSS, TERMS])
@pytest.mark.parametrize("spoil", [a_tenth_off, one_nan], ids=told)
def test_a_wrong_loss_does_not(spoil: Spoil, asked: str):
    case = in_rows(asked, "float32", 17, 33)
    assert "exceeds" in judged("cross_entropy", case, spoil).reason


@pytest.mark.parametrize("missing", ["", "smoothing", "z-loss", "ignored rows"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("asked", [TERMS, TERMS_GRADIENT])
def test_a_loss_without_one_of_its_terms_does_not_pass(asked: str, dtype: str, missing: str):
    case, operator = in_rows(asked, dtype, 64, 3001), OPERATORS["cross_entropy"]
    x, target = tensors = operator.tensors(case, "cpu", 1)
    smoothing = 0.0 if missing == "smoothing" else SMOOTHING
    z_loss = 0.0 if missing == "z-loss" else Z_LOSS
    leaf = x.double().requires_grad_()
    rows = cross_entropy(leaf, target, reduction="none", label_smoothing=smoothing)
    rows = rows + z_loss * leaf.logsumexp(-1).square() * (target != IGNORED)
    result = rows.sum() / (len(rows) if missing == "ignored rows" else (target != IGNORED).sum())
    if asked == TERMS_GRADIENT:
        result = torch.autograd.grad(result, leaf)[0].to(x.dtype)
    found = operator.error(case, tensors, result.detach())
    assert bool(found.reason) == bool(missing)


@pytest.mark.parametrize("case", OPERATORS["topk_softmax"].smoke, ids=str)
def test_the_right_values_at_other_places_do_not(case: Case):
    assert "index" in judged("topk_softmax", case, beside).reason
    values = judged("topk_softmax", case, lambda top: (top[0] * 1.1, top[1]))
    assert "relative error" in values.reason


def test_a_softmax_of_other_rows_than_the_columns_does_not_pass():
    case = of_shape(INNER, "float32", (3, 5, 4))
    operator = OPERATORS["columns"]
    x, _ = tensors = operator.tensors(case, "cpu", 1)
    assert operator.error(case, tensors, x.softmax(1)).reason == ""
    assert operator.error(case, tensors, x.softmax(2)).reason


def test_the_sums_of_an_additive_mask_may_be_rounded_or_not():
    case = of_scores(ADDED, "bfloat16", 64, 64 * 64 * 2 * 4)
    x, mask, _ = tensors = OPERATORS["masks"].tensors(case, "cpu", 1)
    x *= 30
    rounded = (x + mask).float().softmax(-1).bfloat16()
    whole = (x.float() + mask.float()).softmax(-1).bfloat16()
    assert not torch.equal(rounded, whole)
    for y in (rounded, whole):
        error = OPERATORS["masks"].error(case, tensors, y)
        assert error.value <= error.most
    error = OPERATORS["masks"].error(case, tensors, whole.where(mask > 0.0, rounded))
    assert error.value > error.most


def test_scores_without_their_scale_do_not_pass():
    case = of_scores(SCALED, "bfloat16", 64, 64 * 64 * 2 * 4)
    x, mask, _ = tensors = OPERATORS["masks"].tensors(case, "cpu", 1)
    for scale, right in ((1.0, False), (0.125, True), (0.25, False)):
        y = (x.double() * scale).masked_fill(~mask, -math.inf).softmax(-1).bfloat16()
        error = OPERATORS["masks"].error(case, tensors, y)
        assert (error.value <= error.most) == right


@pytest.mark.parametrize("asked", [FULL, OF_HEADS, ADDED, CAUSAL, SCALED])
def test_a_softmax_without_its_mask_does_not_pass(asked: str):
    case = of_scores(asked, "float32", 9, 4 * 9 * 9 * 6)
    operator = OPERATORS["masks"]
    tensors = operator.tensors(case, "cpu", 1)
    assert operator.error(case, tensors, tensors[0].softmax(-1)).reason
    (plain,) = (each for each in operator.implementations if each.name == "plain")
    assert plain.error is not None
    assert plain.error(case, tensors, tensors[0].softmax(-1)).reason == ""


def token_of_rank(rank: int) -> Spoil:
    """The token of ``rank`` in each row, 0 being the most probable one."""

    def ids(x: Tensor) -> Tensor:
        return x.argsort(-1, descending=True)[:, rank]

    return ids


@pytest.mark.parametrize(
    ("asked", "rank", "right"),
    [
        *((asked, 0, True) for asked in ASKED), (WARM, 98, True), (OF_K, 49, True),
        (OF_K, 50, False), (OF_BOTH, 50, False), (OF_P, 98, False), (OF_BOTH, 45, False),
    ],
)  # fmt: skip
def test_only_tokens_that_are_kept_pass(asked: str, rank: int, right: bool):
    case, operator = in_rows(asked, "float32", 3, 99), OPERATORS["sample"]
    (x,) = tensors = operator.tensors(case, "cpu", 1)
    found = operator.error(case, tensors, token_of_rank(rank)(x))
    assert (found.reason == "") == right


@pytest.mark.parametrize("odd", [-1, 99])
def test_a_token_outside_of_the_row_does_not_pass(odd: int):
    case, operator = in_rows(WARM, "float32", 3, 99), OPERATORS["sample"]
    tensors = operator.tensors(case, "cpu", 1)
    assert operator.error(case, tensors, torch.full((3,), odd)).value == math.inf


def test_a_sum_and_a_copy_are_checked_bit_for_bit():
    backward, factors = OPERATORS["backward"], OPERATORS["factors"]
    for operator, name in ((backward, "add"), (factors, "copy_torch")):
        case = operator.smoke[0]
        tensors = operator.tensors(case, "cpu", 1)
        (each,) = (e for e in operator.implementations if e.name == name)
        assert each.error is not None
        result = each.prepare(case, "cpu")(*tensors)
        assert each.error(case, tensors, result).reason == ""
        assert each.error(case, tensors, result + 1e-3).reason


@pytest.mark.parametrize(
    ("name", "case", "n_bytes"),
    [
        ("factors", in_rows("log", "bfloat16", 8, 100), 2 * 1600),
        ("masks", of_scores(FULL, "bfloat16", 10, 1200), 2 * 1200 + 600),
        ("masks", of_scores(OF_HEADS, "float32", 10, 2400), 2 * 2400 + 600),
        ("masks", of_scores(ADDED, "bfloat16", 10, 1200), 3 * 1200),
        ("masks", of_scores(CAUSAL, "float32", 10, 2400), 2400 + 6 * 55 * 4),
        ("masks", of_scores(SCALED, "float32", 10, 2400), 2400 + 6 * 55 * 4),
        ("columns", of_shape(INNER, "float32", (3, 5, 4)), 480),
        ("backward", in_rows("softmax", "bfloat16", 8, 100), 3 * 1600),
        ("cross_entropy", in_rows(LOSS, "float32", 8, 100), 3200 + 64),
        ("cross_entropy", in_rows(GRADIENT, "float32", 8, 100), 6400 + 64),
        ("cross_entropy", in_rows(TERMS, "float32", 8, 100), 2800 + 64),  # a row is ignored
        ("cross_entropy", in_rows(TERMS_GRADIENT, "float32", 8, 100), 2800 + 3200 + 64),
        ("topk_softmax", in_rows("k=5", "bfloat16", 8, 100), 1600 + 8 * 5 * 10),
        ("sample", in_rows(WARM, "float32", 8, 100), 3200 + 64),
        ("attention", of_tokens(True, "bfloat16", 16, 8, 32, 16), 4 * 32 * 16 * 2),
        ("calls", of_call(INTO, "bfloat16", 8, 100), 2 * 1600),
        ("calls", of_heads("bfloat16", 2, 16, heads=1, dim=16), 4 * 32 * 16 * 2),
    ],
    ids=str,
)
def test_bytes_are_those_of_one_read_and_one_write(name: str, case: Case, n_bytes: int):
    assert OPERATORS[name].n_bytes(case) == n_bytes


def test_operations_are_those_of_the_scores_that_are_seen():
    full, causal = (of_tokens(c, "bfloat16", 16, 8, 32, 16) for c in (False, True))
    assert OPERATORS["attention"].flops(full) == 4 * 2 * 2 * 16 * 16 * 8
    assert OPERATORS["attention"].flops(causal) == 4 * 2 * 2 * (16 * 17 / 2) * 8
    assert math.isnan(OPERATORS["sample"].flops(OPERATORS["sample"].smoke[0]))


def test_what_is_compiled_can_be_and_is_right(monkeypatch: pytest.MonkeyPatch):
    compiled = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **k: compiled(f, backend="eager", **k))
    seen = 0
    for name, operator in OPERATORS.items():
        for each in (e for e in operator.implementations if e.name == COMPILED):
            for case in operator.smoke:
                case = replace(case, dtype="bfloat16")
                tensors = operator.tensors(case, "cpu", 1)
                result = each.prepare(case, "cuda")(*tensors)
                assert operator.error(case, tensors, result).reason == "", (name, case)
                seen += 1
    assert seen > 10


def test_an_unknown_operator_lists_the_known_ones():
    with pytest.raises(KeyError, match="unknown operator 'nonsense'; known: factors, masks, col"):
        operator_of("nonsense")


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_is_whole(name: str):
    operator = OPERATORS[name]
    assert {OURS, TORCH} <= {each.name for each in operator.implementations}
    assert len(set(operator.cases)) == len(operator.cases)
    assert operator.quick
    assert operator.smoke
    # A goal finds its row by what is asked, dtype, rows and columns.
    places = {(c.asked, c.dtype, c.rows, c.cols) for c in operator.cases}
    assert len(places) == len(operator.cases)
    module = __import__(f"experiments.family.{name}", fromlist=["__doc__"])
    assert "?" in module.__doc__.split("\n\n")[0]
    assert "Predicts" in module.__doc__


def test_an_operator_without_ours_or_with_other_quick_cases_is_refused():
    sample = OPERATORS["sample"]
    with pytest.raises(ValueError, match="expected 'ours', 'torch' and others, once each"):
        replace(sample, implementations=sample.implementations[1:])
    with pytest.raises(ValueError, match="quick cases that a full run has not: temperature"):
        replace(sample, quick=sample.smoke)
