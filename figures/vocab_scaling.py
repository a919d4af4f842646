"""How does bandwidth hold up as the vocabulary grows and the bytes stay the same?

python -m figures.vocab_scaling TIDY.csv --hardware hardware.json --stem OUTDIR/vocab_scaling
"""

import pandas as pd
from matplotlib.axes import Axes

from figures import FIGURES, page
from figures.curves import bandwidth, headline
from kernels.registry import DTYPES


def draw(ax: Axes, tidy: pd.DataFrame) -> None:
    """Useful GB/s against columns, for a table of one dtype."""
    bandwidth(ax, tidy, "cols", "columns")


def panels(tidy: pd.DataFrame) -> page.Grid:
    """One panel a dtype; of Triton's variants those that the publications plot or end with."""
    return by_dtype(headline(tidy))


def by_dtype(tidy: pd.DataFrame) -> page.Grid:
    """One panel a dtype."""
    groups = dict(list(tidy.groupby("dtype")))
    return [[page.Panel(d, groups[d], draw) for d in DTYPES if d in groups]]


if __name__ == "__main__":
    page.main(panels, FIGURES["vocab_scaling"])
