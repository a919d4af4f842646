"""What does accuracy cost: error against speed?

python -m figures.numerics TIDY.csv --hardware hardware.json --stem OUTDIR/numerics
"""

import pandas as pd
from matplotlib.axes import Axes

from figures import FIGURES, page
from figures.curves import timed
from figures.look import in_order, look


def draw(ax: Axes, tidy: pd.DataFrame) -> None:
    """The largest relative error against fraction of copy, for a table of one shape."""
    table = timed(tidy, "device")
    ceiling = table["variant"] == "copy"
    for name in in_order(table.loc[~ceiling, "variant"]):
        mine = table[(table["variant"] == name) & (table["status"] == "ok")]
        mark = look(name).line(mine["fraction_of_copy"], mine["max_rel_err"],
                               hollow=bool(mine["stale"].any()))  # fmt: skip
        mark.set(linestyle="", label=f"_{name}")
        ax.add_line(mark)
    ax.axvline(1.0, color=look("copy").colour, linestyle=(0, look("copy").dash), zorder=1.9)
    ax.set_yscale("log")
    ax.relim()
    ax.margins(0.1)
    ax.autoscale_view()
    ax.set(xlabel="fraction of copy", ylabel="largest relative error")


def panels(tidy: pd.DataFrame) -> page.Grid:
    """One panel a number of columns."""
    groups = tidy.groupby("cols")
    return [[page.Panel(f"{cols:,} columns, float32", table, draw) for cols, table in groups]]


if __name__ == "__main__":
    page.main(panels, FIGURES["numerics"])
