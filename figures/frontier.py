"""Does the family of kernels stay at copy speed for every width, and what do the others do?

python -m figures.frontier TIDY.csv --hardware hardware.json --stem OUTDIR/frontier
"""

import pandas as pd
from matplotlib.axes import Axes

from figures import FIGURES, page
from figures.fraction_of_copy import draw
from kernels.frontier.plans import VECTOR_BYTES
from kernels.registry import DTYPES, ELEMENT_BYTES

NEAR, TICKS = (0.9, 1.05), (0.9, 0.95, 1.0, 1.05)  # of copy


def draw_near(ax: Axes, tidy: pd.DataFrame) -> None:
    """The part of ``draw`` in which kernels at copy speed differ."""
    draw(ax, tidy)
    ax.set_yticks(TICKS)
    ax.set_ylim(NEAR)


def panels(tidy: pd.DataFrame) -> page.Grid:
    """Fraction of copy against columns, a column of panels a dtype.

    Rows of whole 16-byte vectors, and rows that start anywhere between two: each, and near copy.
    """
    whole = tidy["cols"] * tidy["dtype"].map(ELEMENT_BYTES) % VECTOR_BYTES == 0
    timed = tidy["status"] == "ok"
    kinds = (
        ("whole vectors", tidy[whole], draw),
        ("whole vectors, near copy", tidy[whole & timed], draw_near),
        ("rows off 16 bytes", tidy[~whole], draw),
        ("rows off 16 bytes, near copy", tidy[~whole & timed], draw_near),
    )
    dtypes = [d for d in DTYPES if d in set(tidy["dtype"])]
    return [
        [page.Panel(f"{d}\n{kind}", some[some["dtype"] == d], how) for d in dtypes]
        for kind, some, how in kinds
    ]


if __name__ == "__main__":
    # Four rows of panels share a page of the paper with text.
    page.main(panels, FIGURES["frontier"], share_y="row", tall=0.85)
