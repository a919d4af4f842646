"""The frontier's figure: which rows a panel has, and that its own curve is seen."""

import math

from experiments.sweeps import SWEEPS
from figures import frontier
from figures.look import drawn, look
from kernels.registry import ELEMENT_BYTES
from tests.figures.test_draw import figure_of, lines


def test_the_frontiers_widths_are_told_apart_by_where_their_rows_start(tidy):
    figure, grid = figure_of("frontier", tidy("frontier"), "row")
    for panels in zip(*grid, strict=True):
        size = ELEMENT_BYTES[panels[0].table["dtype"].iloc[0]]
        starts = [{c * size % 16 == 0 for c in p.table["cols"]} for p in panels]
        assert starts == [{True}, {True}, {False}, {False}]
        for near in panels[1::2]:
            assert set(near.table["status"]) == {"ok"}
    limits = [ax.get_ylim() for ax in figure.axes]
    assert set(limits[3:6] + limits[9:]) == {(frontier.NEAR, frontier.top_of(tidy("frontier")))}
    assert all(low <= 0 < 1 < high for low, high in limits[:3] + limits[6:9])


def test_panels_near_copy_cut_off_nothing_that_is_faster(tidy):
    table = tidy("frontier")
    assert frontier.top_of(table.assign(fraction_of_copy=0.9, fraction_high=0.95)) == 1.05
    assert frontier.top_of(table.assign(fraction_of_copy=1.0, fraction_high=1.06)) > 1.06
    assert frontier.top_of(table.assign(fraction_of_copy=1.2, fraction_high=math.nan)) > 1.2


def test_every_curve_has_a_colour_of_its_own():
    colours = [look(name).colour for name in SWEEPS["frontier"].variants if drawn(name)]
    assert len(set(colours)) == len(colours) > 8


def test_the_frontiers_curve_lies_on_all_others(tidy):
    figure, _ = figure_of("frontier", tidy("frontier"), "row")
    for ax in figure.axes:
        (ours,) = lines(ax, "_frontier")
        others = [line for line in ax.lines if line is not ours]
        assert others
        assert all(line.get_zorder() < ours.get_zorder() for line in others)
