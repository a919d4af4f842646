"""Dealt rows of few multiprocessors wrap their rings, and the GPU is whole again afterwards."""

from typing import Any

import pytest
import torch

from experiments import sanitized, wrapped
from experiments.launches import Gpu
from experiments.layout import Layout
from experiments.placed import Placed
from experiments.sanitizer import RINGS
from experiments.wrapped import MULTIPROCESSORS, Wrapped, of_few, turns, turns_of_places
from kernels import prepared
from kernels.frontier import frontier
from kernels.frontier.plans import ALIKE, APART, NONE
from kernels.frontier.select import DEFAULT, Request, possible, table
from kernels.registry import DTYPES, ELEMENT_BYTES

H200 = Gpu(DEFAULT, 90, 132)
CASES = list(wrapped.cases(H200))


def test_every_shape_of_chunks_wraps_its_ring_more_than_twice():
    shapes = {e.shape for some in table(DEFAULT).values() for e in some}
    assert {c.shape for c in CASES} >= {s for s in shapes if s.regime == "chunks"}
    assert len(CASES) == len({c.shape for c in CASES})
    assert min(turns(c, MULTIPROCESSORS) for c in CASES) > 2
    assert min(turns_of_places(c, MULTIPROCESSORS) for c in CASES) > 1
    assert {c.plan.edges for c in CASES} == {NONE, ALIKE, APART}
    assert {c.dtype for c in CASES} == set(DTYPES)
    assert {c.shape.invariant for c in CASES} == {False, True}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rows_fit_few_rings_and_are_small(case: Wrapped):
    size = ELEMENT_BYTES[case.dtype]
    for lines in (False, True):
        asked = Request(
            case.dtype, case.rows, case.cols, case.plan.edges, case.layout.contiguous, lines,
            arch=90, multiprocessors=case.multiprocessors, invariant=case.shape.invariant,
        )  # fmt: skip
        assert possible(case.shape, asked)
    assert case.rows * case.cols * size < 2e6
    assert str(case).endswith(", on 4 multiprocessors")


def test_turns_are_chunks_by_slots():
    case = next(c for c in CASES if c.shape.sizes[:2] == (2048, 6) and c.plan.edges == NONE)
    vectors = case.cols * ELEMENT_BYTES[case.dtype] // 16
    assert vectors == 3 * 2048 + 8  # four chunks
    assert turns(case, 4) == case.rows * 4 / (4 * 6)
    assert turns_of_places(case, 8) == case.rows * 4 / (8 * (6 + case.shape.sizes[5]))


def test_they_are_watched_by_a_name_of_their_own_where_there_are_any():
    assert [c for c in sanitized.named(RINGS, H200) if isinstance(c, Wrapped)] == CASES
    assert not any(isinstance(c, Wrapped) for c in sanitized.cases("chunks", H200))
    assert not list(wrapped.cases(Gpu("nvidia-a100", 80, 108)))


def test_within_it_a_launch_takes_as_many_blocks_and_none_that_was_prepared_before(
    monkeypatch: pytest.MonkeyPatch,
):
    whole = frontier.Gpu(DEFAULT, 90, 132)
    monkeypatch.setattr(frontier, "gpu", lambda index: whole)
    before = prepared.THREAD.launches
    before["known"] = frontier.nothing
    with of_few(4):
        assert frontier.gpu(0) == whole._replace(multiprocessors=4)
        assert prepared.THREAD.launches == {}
    assert frontier.gpu(0) == whole
    assert prepared.THREAD.launches is before
    del before["known"]


def test_a_case_is_run_on_its_multiprocessors(monkeypatch: pytest.MonkeyPatch):
    """As Compute Sanitizer's program runs it, with torch on the CPU in the kernel's place."""
    seen: list[int] = []
    monkeypatch.setattr(frontier, "gpu", lambda index: frontier.Gpu(DEFAULT, 90, 132))

    def run(x: torch.Tensor, out: torch.Tensor, shape: object) -> None:
        seen.append(frontier.gpu(0).multiprocessors)
        out.copy_(torch.softmax(x, -1))

    monkeypatch.setattr(frontier, "run", run)
    place = sanitized.placed

    def on_the_cpu(layout: Layout, rows: int, cols: int, dtype: torch.dtype, *more: Any) -> Placed:
        _, seed, guard = more
        return place(layout, rows, cols, dtype, "cpu", seed, guard)

    monkeypatch.setattr(sanitized, "placed", on_the_cpu)
    usual = next(sanitized.cases("chunks", H200))
    some = (CASES[0], CASES[7], usual)
    assert [sanitized.run(case, 1, guard) for case in some for guard in (0, 64)] == [""] * 6
    assert seen == [4, 4, 4, 4, 132, 132]
