"""What fraction of the same-shape copy's speed does each variant reach?

python -m figures.fraction_of_copy TIDY.csv --hardware hardware.json --stem OUTDIR/fraction_of_copy
"""

import pandas as pd
from matplotlib.axes import Axes

from figures import FIGURES, page
from figures.curves import curves, headline, timed
from figures.look import LOOKS
from kernels.registry import DTYPES


def draw(ax: Axes, tidy: pd.DataFrame) -> None:
    """Fraction of copy, formed inside each block, against columns, for a table of one dtype."""
    table = timed(tidy, "device")
    curves(ax, table[table["variant"] != "copy"], "cols", "fraction_of_copy", "fraction_low",
           "fraction_high")  # fmt: skip
    copy = LOOKS["copy"]
    ax.axhline(1.0, color=copy.colour, linestyle=(0, copy.dash), zorder=1.9, label=copy.label)
    ax.set(xlabel="columns", ylabel="fraction of copy")


def panels(tidy: pd.DataFrame) -> page.Grid:
    """One panel a dtype."""
    groups = dict(list(headline(tidy).groupby("dtype")))
    return [[page.Panel(d, groups[d], draw) for d in DTYPES if d in groups]]


if __name__ == "__main__":
    page.main(panels, FIGURES["fraction_of_copy"])
