"""Any rows astride the table's thresholds are right, wherever they lie: drawn by hypothesis."""

from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from experiments.launches import Gpu, chosen, present
from experiments.layout import Layout
from experiments.sanitized import placed_widths
from kernels.frontier import frontier
from kernels.frontier.plans import ALIKE, APART, VECTOR_BYTES, Shape
from kernels.frontier.select import FEW, MANY
from kernels.registry import ELEMENT_BYTES
from tests.gpu.drawn import Drawn, fault

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("hopper"),
    # After test_frontier_proof, which compiles nearly all of these kernels on all cores.
    pytest.mark.xdist_group("frontier_proof"),
]

ELEMENTS = 2**22  # of an example at most: a reference in float64 takes milliseconds
MOST_ROWS = 2**15
FARTHEST = 13  # elements before a row or between two
EXAMPLES = settings(
    max_examples=500, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip


class Threshold(NamedTuple):
    """A width before, at or after one where the table goes to another shape; ``edges``: a kind."""

    dtype: str
    edges: int
    rows: int
    cols: int


def thresholds(gpu: Gpu) -> dict[str, list[Threshold]]:
    """What ``gpu``'s table has, by the regime that serves it."""
    found: dict[str, dict[Threshold, None]] = {}
    for dtype, rows, cols, layout in placed_widths(gpu, in_turn=False):
        regime = chosen(layout, dtype, rows, cols, gpu).regime
        edges = layout.edges(cols, ELEMENT_BYTES[dtype])
        found.setdefault(regime, {})[Threshold(dtype, edges, rows, cols)] = None
    return {regime: list(some) for regime, some in found.items()}


@st.composite
def rows_astride(draw: st.DrawFn, some: dict[str, list[Threshold]]) -> Drawn:
    """Rows of one of these widths: so many as its entry serves, one more or less, or any number."""
    dtype, edges, entry, cols = draw(st.sampled_from(some[draw(st.sampled_from(sorted(some)))]))
    most = max(1, min(MOST_ROWS, ELEMENTS // cols))
    number = FEW + 1 if entry == MANY else entry
    near = [rows for rows in (number - 1, number, number + 1) if 1 <= rows <= most]
    rows = draw(st.sampled_from(near or [most]) | st.integers(1, most))
    layout = draw(layouts(edges, VECTOR_BYTES // ELEMENT_BYTES[dtype]))
    expanded = rows > 1 and not layout.in_place and draw(st.sampled_from([False] * 9 + [True]))
    return Drawn(dtype, rows, cols, layout, expanded, None, draw(st.integers(0, 99)))


@st.composite
def layouts(draw: st.DrawFn, edges: int, width: int) -> Layout:
    """Whole vectors before and between rows for NONE; some elements more, alike or apart.

    Half of all rows lie side by side, as tiles need them.
    """
    whole, some = st.sampled_from([0, width, 3 * width]), st.integers(0, FARTHEST)
    between, rest = (st.just(0), st.just(0)) if draw(st.booleans()) else (some, whole)
    if edges == APART:
        return Layout("drawn", draw(some), draw(some), draw(between), draw(between))
    before, gap = (draw(some), draw(between)) if edges == ALIKE else (0, 0)
    x, gap_x = before + draw(whole), gap + draw(rest)
    if draw(st.booleans()):
        return Layout("drawn", x, x, gap_x, gap_x, in_place=True)
    return Layout("drawn", x, before + draw(whole), gap_x, gap + draw(rest))


@cache
def _rows_here() -> st.SearchStrategy[Drawn]:
    return rows_astride(thresholds(present()))


@EXAMPLES
@given(data=st.data())
def test_rows_astride_thresholds_are_right_and_nothing_else_is_written(data: st.DataObject):
    one = data.draw(_rows_here())

    def launch(x: Tensor, out: Tensor, forced: Shape | None) -> Tensor:
        return frontier.softmax(x, out)

    assert fault(one, "cuda", launch) == ""
