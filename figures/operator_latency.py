"""How long do few rows take: the k largest of a vocabulary, a sample of it, a call of a softmax?

python -m figures.operator_latency TIDY.csv --hardware hardware.json --stem OUTDIR/sample
"""

import pandas as pd
from matplotlib.axes import Axes

from figures import family, page

WORDS = (
    "of the number of columns that is measured most; others are in the table",
    "copy reads and writes whole rows, also where results are few",
)
_draw = family.line("median_us", "rows", ("ci_low_us", "ci_high_us"), log=True)


def draw(ax: Axes, table: pd.DataFrame) -> None:
    """Microseconds on the device, or until a caller has the result, against rows."""
    _draw(ax, table)
    waits = "call" in set(table["timer"])
    ax.set(xlabel="rows", ylabel="µs that a caller waits" if waits else "µs on the device")


def panels(table: pd.DataFrame) -> page.Grid:
    """What is asked down, dtypes across, of one number of columns."""
    cols = table["cols"].mode().iloc[0]
    grid = family.by_asked_and_dtype(table[table["cols"] == cols], draw)
    return [[panel._replace(title=f"{panel.title}, {cols:,}") for panel in row] for row in grid]


if __name__ == "__main__":
    family.main(panels, WORDS)
