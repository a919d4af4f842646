"""How long do few rows take, where GB/s says little?

python -m figures.batch_latency TIDY.csv --hardware hardware.json --stem OUTDIR/batch_latency
"""

import pandas as pd
from matplotlib.axes import Axes

from experiments.tables import useful_bytes
from figures import FIGURES, batch_scaling, page
from figures.curves import LATENCY_BYTES, curves, timed


def draw(ax: Axes, tidy: pd.DataFrame) -> None:
    """Microseconds on the device against rows, for a table of one dtype and number of columns."""
    table = timed(tidy, "device")
    curves(ax, table, "rows", "median_us", "ci_low_us", "ci_high_us", y_log=True)
    ax.set(xlabel="rows", ylabel="µs on the device")


def panels(tidy: pd.DataFrame) -> page.Grid:
    """The panels of batch_scaling, cut where traffic passes 16 MB."""
    size = [useful_bytes(r.rows, r.cols, r.dtype) for r in tidy.itertuples()]
    small = tidy[[n <= LATENCY_BYTES for n in size]]
    return [[panel._replace(draw=draw) for panel in row] for row in batch_scaling.panels(small)]


if __name__ == "__main__":
    page.main(panels, FIGURES["batch_latency"])
