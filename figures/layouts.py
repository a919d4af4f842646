"""What does it cost where rows lie badly in memory?

python -m figures.layouts layouts.csv --hardware hardware.json --stem OUTDIR/layouts
"""

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from matplotlib.axes import Axes

from experiments.layout import LAYOUTS
from experiments.tables import LAYOUTS as TABLE
from figures import page
from figures.look import BLACK, BLUE, GREEN, ORANGE, PURPLE, VERMILLION
from kernels.registry import DTYPES

ADVICE = "make it with: python -m experiments.layouts --out layouts.csv"
WORDS = "median and 95% interval over turns of one process; copy is that of contiguous tensors"
LOOKS = dict(
    zip(
        (layout.name for layout in LAYOUTS),
        zip((BLACK, BLUE, GREEN, PURPLE, ORANGE, VERMILLION), "oPs^Dv", strict=True),
        strict=True,
    )
)
SPREAD = 0.1  # of the distance of two widths, between two layouts


def draw(ax: Axes, table: pd.DataFrame) -> None:
    """Fraction of copy by width, a mark with its interval a layout, for a table of one dtype.

    What is ``stale`` has a hollow mark.
    """
    widths = sorted(table["cols"].unique())
    for number, (name, (colour, marker)) in enumerate(LOOKS.items()):
        mine = table[(table["layout"] == name) & (table["status"] == "ok")]
        off = SPREAD * (number - (len(LOOKS) - 1) / 2)
        value, at = mine["fraction_of_copy"], mine["cols"].map(widths.index) + off
        ax.errorbar(
            at, value,
            yerr=[value - mine["fraction_low"], mine["fraction_high"] - value],
            fmt=marker, color=colour, label=name,
        )  # fmt: skip
        if len(old := mine[mine["stale"]]):
            white = {"color": colour, "markerfacecolor": "white", "zorder": 2.2}  # on the marks
            ax.plot(at[old.index], value[old.index], marker, **white)
    ax.axhline(1.0, color="0.6", linewidth=0.6)
    ax.set_xticks(range(len(widths)), [f"{cols:,}" for cols in widths], rotation=45)
    ax.set(xlabel="columns N", ylabel="fraction of copy")


def panels(table: pd.DataFrame) -> page.Grid:
    """One panel a dtype."""
    groups = dict(list(table.groupby("dtype")))
    return [[page.Panel(d, groups[d], draw, in_legend=False) for d in DTYPES if d in groups]]


def stopped(table: pd.DataFrame) -> list[str]:
    """Parts of a stamp: how many points are wrong or skipped, and the first reason."""
    parts = []
    for status, mine in table[table["status"] != "ok"].groupby("status"):
        first = mine.iloc[0]
        where = f"{first['layout']}, {first['dtype']}, {first['cols']:,} columns"
        parts.append(f"{len(mine)} {status}, such as {where}: {first['reason']}")
    return parts


def main(
    table: Annotated[Path, typer.Argument(help="layouts.csv")],
    hardware: Annotated[Path, typer.Option(help="hardware.json of the source")],
    stem: Annotated[Path, typer.Option(help="path of the outputs without their suffix")],
) -> None:
    """Write the figure as STEM.svg, STEM.png and STEM.pdf."""
    with page.plainly():
        data = page.read_valid(table, TABLE, "a table of layouts", ADVICE)
        facts = page.hardware_of(table, hardware)
        note = [WORDS, *page.origin(facts), *stopped(data), *page.outdated(data, facts)]
        data["stale"] = page.staleness(data, facts)
        page.save(panels(data), " · ".join(note), stem)


if __name__ == "__main__":
    typer.run(main)
