"""The figure of layouts: a mark with its interval for each, and a word on what has none."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

from experiments.layout import COLS, LAYOUTS
from figures import layouts
from kernels.registry import DTYPES
from tests.experiments.watched import placed_rows


def test_every_layout_has_a_mark_at_every_width():
    (panels,) = layouts.panels(placed_rows().assign(stale=False))
    assert [panel.title for panel in panels] == list(DTYPES)
    _, ax = plt.subplots()
    panels[0].draw(ax, panels[0].table)
    drawn = [c for c in ax.containers if isinstance(c, ErrorbarContainer)]
    assert [c.get_label() for c in drawn] == [layout.name for layout in LAYOUTS]
    for marks, layout in zip(drawn, LAYOUTS, strict=True):
        line, _, (bars,) = marks
        value = 0.98 if layout.contiguous else 0.97
        assert list(line.get_ydata()) == pytest.approx([value] * len(COLS))
        ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
        assert ends == [pytest.approx([value - 0.005, value + 0.004])] * len(COLS)
    plt.close()


def test_stale_rows_are_hollow():
    table = placed_rows().assign(stale=False)
    table = table[table["dtype"] == "float32"]
    old = table.index[[2, 7]]
    table.loc[old, "stale"] = True
    _, ax = plt.subplots()
    layouts.draw(ax, table)
    hollow = [line for line in ax.lines if line.get_markerfacecolor() == "white"]
    marks = [c[0] for c in ax.containers if isinstance(c, ErrorbarContainer)]
    assert all(line.get_zorder() > mark.get_zorder() for line in hollow for mark in marks)
    drawn = [float(y) for line in hollow for y in np.asarray(line.get_ydata())]
    assert sorted(drawn) == sorted(table.loc[old, "fraction_of_copy"])
    plt.close()


def test_what_was_not_timed_is_told():
    table = placed_rows()
    assert layouts.stopped(table) == []
    table.loc[[3, 4], ["status", "reason"]] = "wrong", "a row sums to 0"
    (told,) = layouts.stopped(table)
    where = f"{LAYOUTS[3].name}, float32, {COLS[0]:,} columns"
    assert told == f"2 wrong, such as {where}: a row sums to 0"
