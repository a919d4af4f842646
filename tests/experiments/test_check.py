"""The checker's bounds are as tight as they say, and its reasons name the row."""

from typing import Any

import pytest
import torch

from experiments import check as module
from experiments.check import TOLERANCE, Reference, check, check_copy, planted

DTYPES = list(TOLERANCE)
NAN = float("nan")


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.double(), dim=1).to(x.dtype)


def test_the_tolerances_are_the_ones_that_the_design_promises():
    assert {dtype: relative for dtype, (relative, _) in TOLERANCE.items()} == {
        torch.float32: 2e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3,
    }  # fmt: skip
    assert TOLERANCE[torch.float16][1] == 2**-24


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_one_element_just_beyond_the_tolerance_is_rejected(dtype: torch.dtype, sign: int):
    x = planted(20, 500, dtype, "cpu", seed=0)
    relative, _ = TOLERANCE[dtype]
    for share, ok in ((0.5, True), (2.0, False)):
        y = softmax(x)
        column = int(y[13].argmax())
        y[13, column] = float(y[13, column]) * (1 + sign * share * relative)
        verdict = check(x, y)
        assert verdict.ok == ok
        assert (verdict.max_rel_err <= relative) == ok
        assert ("relative error" in verdict.reason) != ok


def test_float16_may_miss_by_one_of_its_smallest_steps():
    x = torch.zeros(1, 40_000, dtype=torch.float16)
    assert check(x, softmax(x)).ok
    for steps, ok in ((1, True), (2, False)):
        y = softmax(x)
        y[0, 7] += steps * 2**-24
        assert check(x, y).ok == ok


@pytest.mark.parametrize(("expected", "written"), [(0.5, NAN), (NAN, 0.5)])
def test_what_is_not_finite_is_reported_by_row(
    expected: float, written: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", 4)  # two rows a chunk
    x = torch.zeros(7, 2)
    if expected != expected:
        x[5, 0] = NAN
    y = softmax(x)
    y[5] = written
    assert check(x, y).reason == "row 5 is finite or NaN where it should not be"


def test_the_worst_of_all_chunks_counts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", 4)
    x = torch.zeros(6, 2)
    y = softmax(x)
    y[0, 0] = 0.75
    verdict = check(x, y)
    assert (verdict.max_rel_err, verdict.row_sum_err) == (0.5, 0.25)


@pytest.mark.parametrize("kept", [0, 100], ids=["made again", "kept"])
def test_one_reference_serves_many_outputs(kept: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", 4)
    monkeypatch.setattr(module, "KEPT_ELEMENTS", kept)
    x = planted(6, 2, torch.float32, "cpu", seed=2)
    reference = Reference(x)
    wrong = softmax(x)
    wrong[5] *= 1.1
    outputs = [softmax(x), wrong, softmax(x), wrong]
    assert [reference.check(y).ok for y in outputs] == [True, False, True, False]
    assert reference.check(wrong) == check(x, wrong)


def test_a_reference_cut_off_by_full_memory_is_not_taken_for_whole(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", 4)
    x = torch.zeros(6, 2)
    reference = Reference(x)
    real = torch.softmax
    made = iter([True, False])

    def once(*args: Any, **options: Any) -> torch.Tensor:
        if not next(made):
            raise torch.OutOfMemoryError("tried to allocate")
        return real(*args, **options)

    wrong = softmax(x)
    wrong[5, 1] = 0.0
    monkeypatch.setattr(torch, "softmax", once)
    with pytest.raises(torch.OutOfMemoryError):
        reference.check(wrong)
    monkeypatch.setattr(torch, "softmax", real)
    assert not reference.check(wrong).ok


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("value", [1.0, NAN, -0.0])
def test_a_changed_input_is_seen(dtype: torch.dtype, value: float):
    x = planted(9, 33, dtype, "cpu", seed=2)[:, 1:]
    x[3, 3], x[4, 4] = NAN, 0.0
    reference = Reference(x)
    assert reference.unchanged()
    x[4, 4] = value
    assert not reference.unchanged()


def test_infinity_where_nan_belongs_is_rejected():
    x = torch.full((1, 4), -torch.inf)
    assert not check(x, torch.full_like(x, torch.inf)).ok


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_copy_is_compared_bit_for_bit(dtype: torch.dtype):
    x = planted(6, 33, dtype, "cpu", seed=0)
    x[2, 3], x[4, 4] = NAN, 0.0
    assert check_copy(x, x.clone()).ok
    for position, value in (((5, 32), 1.25), ((4, 4), -0.0)):
        y = x.clone()
        y[position] = value
        assert not check_copy(x, y).ok


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_tenth_row_is_loud(dtype: torch.dtype):
    x = planted(40, 5000, dtype, "cpu", seed=3).float()
    loud = (x.abs() > 6).any(dim=1)
    assert loud.nonzero().flatten().tolist() == [0, 10, 20, 30]
    assert ((x.abs() > 6).sum(dim=1) <= 4).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (9, 7), (10, 2), (11, 50_257)])
def test_the_first_row_is_loud_at_every_shape(shape: tuple[int, int]):
    x = planted(*shape, torch.float32, "cpu", seed=1)
    calm = torch.empty(shape).normal_(generator=torch.Generator().manual_seed(1))
    changed = (x != calm).sum(dim=1)
    assert changed[0] == min(4, shape[1])
    assert x[x != calm].tolist() == (calm[x != calm] * 20).tolist()


def test_the_seed_decides_the_input():
    first, again, other = (planted(10, 100, torch.float16, "cpu", seed=s) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
