"""Does the family of kernels stay at copy speed for every width, and what do the others do?

python -m figures.frontier TIDY.csv --hardware hardware.json --stem OUTDIR/frontier
"""

import pandas as pd

from figures import FIGURES, page
from figures.fraction_of_copy import draw
from kernels.registry import DTYPES


def panels(tidy: pd.DataFrame) -> page.Grid:
    """Fraction of copy against columns, one panel a dtype."""
    groups = dict(list(tidy.groupby("dtype")))
    return [[page.Panel(d, groups[d], draw) for d in DTYPES if d in groups]]


if __name__ == "__main__":
    page.main(panels, FIGURES["frontier"], tall=1.2)
