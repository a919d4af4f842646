"""How long do few rows of a vocabulary take to choose from: the k largest, or a sample?

python -m figures.operator_latency TIDY.csv --hardware hardware.json --stem OUTDIR/sample
"""

import pandas as pd
from matplotlib.axes import Axes

from figures import family, page

WORDS = "of the vocabulary that is measured most; others are in the table"
_draw = family.line("median_us", "rows", ("ci_low_us", "ci_high_us"), log=True)


def draw(ax: Axes, table: pd.DataFrame) -> None:
    """Microseconds on the device against rows."""
    _draw(ax, table)
    ax.set(xlabel="rows", ylabel="µs on the device")


def panels(table: pd.DataFrame) -> page.Grid:
    """What is asked down, dtypes across, of one number of columns."""
    cols = table["cols"].mode().iloc[0]
    grid = family.by_asked_and_dtype(table[table["cols"] == cols], draw)
    return [[panel._replace(title=f"{panel.title}, {cols:,}") for panel in row] for row in grid]


if __name__ == "__main__":
    family.main(panels, [WORDS])
