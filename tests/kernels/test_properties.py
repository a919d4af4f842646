"""What hypothesis draws for tests on a GPU, counted and run without one."""

from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from experiments.launches import Gpu
from kernels.frontier.plans import ALIKE, APART, NONE, REGIMES, VECTOR_BYTES, Shape
from kernels.frontier.select import DEFAULT, FEW
from kernels.registry import DTYPES, ELEMENT_BYTES
from tests.gpu import drawn, test_any_tensor
from tests.gpu.drawn import Drawn
from tests.gpu.test_any_tensor import AnyTensor, calls
from tests.gpu.test_frontier_properties import Width, of_each, thresholds

H200 = Gpu(DEFAULT, 90, 132)
THRESHOLDS = thresholds(H200)


def examples(strategy: st.SearchStrategy[Any], like: settings) -> list[Any]:
    """As many of ``strategy`` as tests draw by ``like``; others, since they are other functions."""
    found = []

    @like
    @given(one=strategy)
    def draw(one: Any) -> None:
        found.append(one)

    draw()
    return found


ROWS: list[Drawn] = []
of_each(H200, ROWS.append)
CALLS: list[AnyTensor] = examples(calls(), test_any_tensor.EXAMPLES)


def test_rows_are_of_every_regime_astride_its_thresholds():
    cases = [one.case(H200) for one in ROWS]
    regimes = Counter(case.shape.regime for case in cases)
    # Wider rows than chunks hold have a test of their own.
    assert {r for r in REGIMES if regimes[r] >= 8} == set(REGIMES) - {"stream"}
    # Tiles take rows that lie side by side, whose edges are then alike.
    widths = {Width(one.dtype, one.case(H200).plan.edges, one.cols) for one in ROWS}
    assert {each.edges for each in widths} == {NONE, ALIKE, APART}
    assert {(w.dtype, w.cols) for w in widths} == {(w.dtype, w.cols) for w in THRESHOLDS}
    assert {one.dtype for one in ROWS} == set(DTYPES)
    assert len(set(ROWS)) > 2 * len(THRESHOLDS)
    assert min(sum(one.rows <= FEW for one in ROWS), sum(one.rows > FEW for one in ROWS)) > 50
    assert sum(one.layout.in_place for one in ROWS) > 50
    assert sum(one.expanded for one in ROWS) > 2
    for one, case in zip(ROWS, cases, strict=True):
        step = VECTOR_BYTES // ELEMENT_BYTES[one.dtype]
        assert case.plan.edges or one.cols % step == 0


def right(x: Tensor, out: Tensor, forced: Shape | None) -> None:
    out.copy_(torch.softmax(x.double(), -1))


def test_rows_that_torch_writes_are_right_and_others_are_found():
    small = [one for one in ROWS if one.rows * one.cols < 20_000]
    assert len(small) > 50
    assert {str(one): drawn.fault(one, "cpu", right) for one in small} == dict.fromkeys(
        map(str, small), ""
    )

    def short(x: Tensor, out: Tensor, forced: Shape | None) -> None:
        right(x[:, :-1], out[:, :-1], forced)

    assert all(drawn.fault(one, "cpu", short) for one in small if one.cols > 1)


def test_calls_are_of_tensors_of_every_rank_along_every_dimension():
    assert {len(one.view.sizes) for one in CALLS} == {0, 1, 2, 3, 4}
    assert {one.dim for one in CALLS} >= set(range(-3, 3))
    views = [one.view.of(one.dtype, "cpu") for one in CALLS]
    assert all(view.shape == one.view.sizes for view, one in zip(views, CALLS, strict=True))
    assert min(sum(view.is_contiguous() for view in views),
               sum(not view.is_contiguous() for view in views)) > 20  # fmt: skip
    assert any(view.numel() == 0 for view in views)
    assert min(sum(one.out is None for one in CALLS), sum(one.log for one in CALLS)) > 20


@pytest.mark.filterwarnings("ignore:.*CUDA")
def test_calls_are_right_on_the_cpu_and_wrong_results_are_found():
    assert {fault for one in CALLS if (fault := test_any_tensor.fault(one, "cpu"))} == set()

    def along_another(x: Tensor, dim: int, **arguments: Any) -> Tensor:
        return torch.softmax(x, (dim + 1) % x.dim(), **arguments)

    one = next(each for each in CALLS if each.view.sizes.count(1) == 0 and not each.log
               and len(each.view.sizes) == 2 and 0 not in each.view.sizes)  # fmt: skip
    assert test_any_tensor.fault(one, "cpu", softmax=along_another) != ""
