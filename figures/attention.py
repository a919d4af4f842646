"""How many operations a second does each attention reach, by the length of a sequence?

python -m figures.attention TIDY.csv --hardware hardware.json --stem OUTDIR/attention
"""

import pandas as pd
from matplotlib.axes import Axes

from figures import family, page

WORDS = "operations of the scores that are seen, in both products"
_draw = family.line("tflops")


def draw(ax: Axes, table: pd.DataFrame) -> None:
    """TFLOP/s against the length of a sequence, from 0: below it are points without a time."""
    _draw(ax, table)
    ax.axhline(0, color="0.5", linewidth=0.8, zorder=1)
    ax.set(xlabel="queries and keys of a sequence", ylabel="speed, TFLOP/s")


def panels(table: pd.DataFrame) -> page.Grid:
    """Masks and sizes of heads down, dtypes across."""
    return family.by_asked_and_dtype(table, draw)


if __name__ == "__main__":
    family.main(panels, [WORDS])
