"""What do few rows take where there are fewer of them than multiprocessors?

python -m figures.few_rows TIDY.csv --hardware hardware.json --stem OUTDIR/few_rows
"""

import pandas as pd

from figures import FIGURES, page
from figures.small_batch import draw
from kernels.registry import DTYPES


def panels(tidy: pd.DataFrame) -> page.Grid:
    """Microseconds on the device against rows: a row of panels a dtype, a column a width."""
    groups = dict(list(tidy.groupby(["dtype", "cols"])))
    widths = sorted(set(tidy["cols"]))
    return [
        [page.Panel(f"{d}\n{cols:,} columns", groups[d, cols], draw) for cols in widths]
        for d in DTYPES
        if d in set(tidy["dtype"])
    ]


if __name__ == "__main__":
    page.main(panels, FIGURES["few_rows"], tall=0.85)  # narrow panels of few decades
