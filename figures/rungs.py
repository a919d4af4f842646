"""Marks of each variant on one line a shape: for points that are no axis."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from figures import overlay
from figures.curves import STOPS, log10_ticks, timed
from figures.look import in_order, look

SPREAD = 0.6  # of the distance between two lines, for marks that would lie on one another


def rungs(ax: Axes, tidy: pd.DataFrame, of: str, timer: str) -> None:
    """Median microseconds of ``timer`` on the x axis, one line for each value of ``of``."""
    table, archived = overlay.apart(timed(tidy, timer))
    lines, names = list(dict.fromkeys(table[of])), in_order(table["variant"])
    for order, name in enumerate(names):
        style = look(name)
        mine = table[(table["variant"] == name) & (table["status"] == "ok")]
        heights = [lines.index(v) + SPREAD * (order / len(names) - 0.5) for v in mine[of]]
        marks = style.line(mine["median_us"], heights, hollow=bool(mine["stale"].any()))
        marks.set(linestyle="", label=f"_{name}")
        ax.add_line(marks)
        if not style.marker:  # the ceiling: a wall across the line
            walls = [value - 0.5 for value in map(lines.index, mine[of])]
            ax.vlines(mine["median_us"], walls, [w + 1 for w in walls], color=style.colour,
                      linestyle=(0, style.dash), zorder=1.9)  # fmt: skip
        theirs = archived[archived["variant"] == name]
        if len(theirs):
            heights = [lines.index(v) + SPREAD * (order / len(names) - 0.5) for v in theirs[of]]
            marks = style.line(theirs["median_us"], heights)
            marks.set(marker=style.marker or "|", linestyle="")
            overlay.faint(ax, marks, f"_{name} archived")
        for status, marker in STOPS.items():
            stopped = table[(table["variant"] == name) & (table["status"] == status)]
            for value in stopped[of]:
                height = lines.index(value) + SPREAD * (order / len(names) - 0.5)
                (mark,) = ax.plot(
                    [0.015], [height], marker, color=style.colour, markerfacecolor="none",
                    transform=ax.get_yaxis_transform(), label=f"_{name} {status}",
                )  # fmt: skip
                mark.set_markeredgewidth(1.1)
    overlay.entry(ax, archived, marker="o", linestyle="")
    ax.set(yticks=range(len(lines)), yticklabels=lines, ylim=(len(lines) - 0.5, -0.5))
    time_axis(ax)


def time_axis(ax: Axes) -> None:
    """A log x axis over what is drawn here and on the panels beside, in plain numbers."""
    ax.set_xscale("log")
    ax.relim()
    ax.margins(x=0.06)
    ax.autoscale_view(scaley=False)
    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(FixedLocator(log10_ticks(low, high)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
