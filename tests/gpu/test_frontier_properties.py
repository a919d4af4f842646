"""Rows astride every threshold of the table are right, wherever they lie: drawn by hypothesis."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from torch import Tensor

from experiments.launches import Gpu, present
from experiments.layout import Layout
from experiments.sanitized import placed_widths
from kernels.frontier import frontier
from kernels.frontier.plans import ALIKE, APART, EDGES, VECTOR_BYTES, Shape
from kernels.frontier.select import FEW, MANY
from kernels.registry import DTYPES, ELEMENT_BYTES
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
EXAMPLES = settings(  # of a width, the first of which is the simplest there is
    max_examples=3, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip


class Width(NamedTuple):
    """Columns before, at or after those where the table goes to another shape; edges of a kind."""

    dtype: str
    edges: int
    cols: int


def thresholds(gpu: Gpu) -> dict[Width, list[int]]:
    """What ``gpu``'s table has, and the numbers of rows that it has it for."""
    found: dict[Width, dict[int, None]] = {}
    for dtype, rows, cols, layout in placed_widths(gpu, in_turn=False):
        width = Width(dtype, layout.edges(cols, ELEMENT_BYTES[dtype]), cols)
        found.setdefault(width, {})[rows] = None
    return {width: list(numbers) for width, numbers in found.items()}


@st.composite
def rows_astride(draw: st.DrawFn, width: Width, numbers: list[int]) -> Drawn:
    """Rows of this width: as many as one of ``numbers``, one more or less, or any number."""
    dtype, edges, cols = width
    most, entry = max(1, min(MOST_ROWS, ELEMENTS // cols)), draw(st.sampled_from(numbers))
    number = FEW + 1 if entry == MANY else entry
    near = [rows for rows in (number - 1, number, number + 1) if 1 <= rows <= most]
    rows = draw(st.sampled_from(near or [most]) | st.integers(1, most))
    layout = draw(layouts(edges, VECTOR_BYTES // ELEMENT_BYTES[dtype]))
    expanded = rows > 1 and not layout.in_place and draw(st.sampled_from([False] * 9 + [True]))
    return Drawn(dtype, rows, cols, layout, expanded, None, draw(st.integers(0, 99)))


def of_each(gpu: Gpu, take: Callable[[Drawn], None], dtype: str = "", edges: str = "") -> None:
    """Call ``take`` with rows of each width, of these only where they are given."""
    for number, (width, numbers) in enumerate(thresholds(gpu).items()):
        if dtype in ("", width.dtype) and edges in ("", EDGES[width.edges]):

            def example(one: Drawn) -> None:
                take(one)

            seed(number)(EXAMPLES(given(one=rows_astride(width, numbers))(example)))()


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


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_astride_thresholds_are_right_and_nothing_else_is_written(dtype: str, edges: str):
    def launch(x: Tensor, out: Tensor, forced: Shape | None) -> Tensor:
        return frontier.softmax(x, out)

    def right(one: Drawn) -> None:
        assert fault(one, "cuda", launch) == ""

    of_each(present(), right, dtype, edges)
