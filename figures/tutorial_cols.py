"""Is one program per row faster than torch and four times faster than unfused steps?

python -m figures.tutorial_cols TIDY.csv --hardware hardware.json --stem OUTDIR/tutorial_cols
"""

import pandas as pd
from matplotlib.axes import Axes

from figures import FIGURES, page
from figures.curves import bandwidth


def draw(ax: Axes, tidy: pd.DataFrame) -> None:
    """Useful GB/s against columns, on the linear axes of S2's plot."""
    bandwidth(ax, tidy, "cols", "columns", x_log=False)


def panels(tidy: pd.DataFrame) -> page.Grid:
    """One panel: 4096 rows, float32."""
    return [[page.Panel("float32, 4,096 rows", tidy, draw)]]


if __name__ == "__main__":
    page.main(panels, FIGURES["tutorial_cols"])
