"""Does the family of kernels stay at copy speed for every width, and what do the others do?

python -m figures.frontier TIDY.csv --hardware hardware.json --stem OUTDIR/frontier
"""

from functools import partial

import pandas as pd
from matplotlib.axes import Axes

from figures import FIGURES, page
from figures.fraction_of_copy import draw
from kernels.frontier.plans import VECTOR_BYTES
from kernels.registry import DTYPES, ELEMENT_BYTES

NEAR, TICKS = 0.9, (0.9, 0.95, 1.0, 1.05)  # of copy
ROOM = 0.005  # above the highest end of an interval


def draw_near(ax: Axes, tidy: pd.DataFrame, top: float) -> None:
    """The part of ``draw`` in which kernels at copy speed differ: from NEAR to ``top``."""
    draw(ax, tidy)
    ax.set_yticks(TICKS)
    ax.set_ylim(NEAR, top)


def top_of(tidy: pd.DataFrame) -> float:
    """Of the panels near copy: nothing that is faster is cut off."""
    highest = tidy[["fraction_of_copy", "fraction_high"]].max().max()
    return max(TICKS[-1], highest + ROOM)


def panels(tidy: pd.DataFrame) -> page.Grid:
    """Fraction of copy against columns, a column of panels a dtype.

    Rows of whole 16-byte vectors, and rows that start anywhere between two: each, and near copy.
    """
    whole = tidy["cols"] * tidy["dtype"].map(ELEMENT_BYTES) % VECTOR_BYTES == 0
    timed = tidy["status"] == "ok"
    near = partial(draw_near, top=top_of(tidy))
    kinds = (
        ("whole vectors", tidy[whole], draw),
        ("whole vectors, near copy", tidy[whole & timed], near),
        ("rows off 16 bytes", tidy[~whole], draw),
        ("rows off 16 bytes, near copy", tidy[~whole & timed], near),
    )
    dtypes = [d for d in DTYPES if d in set(tidy["dtype"])]
    return [
        [page.Panel(f"{d}\n{kind}", some[some["dtype"] == d], how) for d in dtypes]
        for kind, some, how in kinds
    ]


if __name__ == "__main__":
    # Four rows of panels share a page of the paper with text.
    page.main(panels, FIGURES["frontier"], share_y="row", tall=0.85)
