"""How many rows does a variant need before it fills the memory system?

python -m figures.batch_scaling TIDY.csv --hardware hardware.json --stem OUTDIR/batch_scaling
"""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from experiments.tables import useful_bytes
from figures import FIGURES, page
from figures.curves import LATENCY_BYTES, bandwidth, headline
from kernels.registry import DTYPES


def draw(ax: Axes, tidy: pd.DataFrame) -> None:
    """Useful GB/s against rows, for a table of one dtype and one number of columns."""
    bandwidth(ax, tidy, "rows", "rows")
    for (dtype, cols), _ in tidy.groupby(["dtype", "cols"]):
        rows = LATENCY_BYTES / useful_bytes(1, cols, dtype)
        shade = Rectangle((1e-3, 0), rows, 1, transform=ax.get_xaxis_transform(), zorder=0)
        shade.set(color="0.95", linewidth=0, label="traffic below 16 MB: see batch_latency")
        ax.add_artist(shade)


def panels(tidy: pd.DataFrame) -> page.Grid:
    """One row of panels a dtype, one column a number of columns."""
    tidy = headline(tidy)
    widths = sorted(tidy["cols"].unique())
    return [
        [
            page.Panel(
                f"{dtype}, {cols:,} columns",
                tidy[(tidy["dtype"] == dtype) & (tidy["cols"] == cols)],
                draw,
            )
            for cols in widths
        ]
        for dtype in DTYPES
        if dtype in set(tidy["dtype"])
    ]


if __name__ == "__main__":
    page.main(panels, FIGURES["batch_scaling"])
