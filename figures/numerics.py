"""What does accuracy cost: error against speed?

python -m figures.numerics TIDY.csv --hardware hardware.json --stem OUTDIR/numerics
"""

import pandas as pd
from matplotlib.axes import Axes

from experiments.sweeps.sweep import EXACT
from figures import FIGURES, overlay, page
from figures.curves import timed
from figures.look import in_order, look


def draw(ax: Axes, tidy: pd.DataFrame) -> None:
    """The largest relative error against fraction of copy, for a table of one shape.

    A line joins each kernel of S5 with its exact form.
    """
    table = timed(tidy, "device")
    table = table[table["variant"] != "copy"]
    done = table[(table["status"] == "ok") & table["fraction_of_copy"].notna()]
    placed, archived = overlay.apart(done)
    for published, exact in EXACT.items():
        pair = placed[placed["variant"].isin((published, exact))]
        if len(pair) == 2:
            ax.plot(pair["fraction_of_copy"], pair["max_rel_err"], color=look(exact).colour,
                    zorder=1.8, label=f"_{published} to {exact}")  # fmt: skip
    for name in in_order(placed["variant"]):
        mine = placed[placed["variant"] == name]
        mark = look(name).line(mine["fraction_of_copy"], mine["max_rel_err"],
                               hollow=bool(mine["stale"].any()))  # fmt: skip
        mark.set(linestyle="", label=f"_{name}")
        ax.add_line(mark)
    for name, theirs in archived.groupby("variant"):
        mark = look(name).line(theirs["fraction_of_copy"], theirs["max_rel_err"])
        overlay.faint(ax, mark, f"_{name} archived", linestyle="")
    overlay.entry(ax, archived, marker="o", linestyle="")
    ax.axvline(1.0, color=look("copy").colour, linestyle=(0, look("copy").dash), zorder=1.9)
    ax.set_yscale("log")
    ax.relim()
    ax.margins(0.1)
    ax.autoscale_view()
    ax.set(xlabel="fraction of copy", ylabel="largest relative error")


def not_timed(tidy: pd.DataFrame) -> str:
    """The variants that have no place in a panel, by its columns."""
    parts = []
    for cols, table in tidy.groupby("cols"):
        there = set(table.loc[table["fraction_of_copy"].notna(), "variant"]) | {"copy"}
        if missing := [look(name).label for name in in_order(set(table["variant"]) - there)]:
            parts.append(f"not timed at {cols:,} columns: {', '.join(missing)}")
    return " · ".join(parts)


def panels(tidy: pd.DataFrame) -> page.Grid:
    """One panel a number of columns."""
    groups = tidy.groupby("cols")
    return [[page.Panel(f"{cols:,} columns, float32", table, draw) for cols, table in groups]]


if __name__ == "__main__":
    page.main(panels, FIGURES["numerics"], first=not_timed)
