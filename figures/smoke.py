"""Did the path from kernel to figure work on this machine?  Its times measure nothing.

python -m figures.smoke TIDY.csv --hardware hardware.json --stem OUTDIR/smoke
"""

import pandas as pd
from matplotlib.axes import Axes

from figures import FIGURES, page
from figures.curves import curves, timed

STAMP = "smoke: not a measurement"


def draw(ax: Axes, tidy: pd.DataFrame) -> None:
    """Microseconds against columns, for a table of one dtype and one number of rows."""
    curves(ax, timed(tidy, "host"), "cols", "median_us", "ci_low_us", "ci_high_us", y_log=True)
    ax.set(xlabel="columns", ylabel="µs")


def panels(tidy: pd.DataFrame) -> page.Grid:
    """One panel: the first dtype and the most rows."""
    dtype, rows = sorted(tidy["dtype"])[0], tidy["rows"].max()
    table = tidy[(tidy["dtype"] == dtype) & (tidy["rows"] == rows)]
    return [[page.Panel(f"{STAMP} ({dtype}, {rows} rows)", table, draw)]]


if __name__ == "__main__":
    page.main(panels, FIGURES["smoke"], first=STAMP)
