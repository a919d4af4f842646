"""Which of the worklog's kernels holds up as a row outgrows a warp, a block, and the registers?

python -m figures.worklog TIDY.csv --hardware hardware.json --stem OUTDIR/worklog
"""

import pandas as pd
from matplotlib.axes import Axes

from experiments.sweeps.sweep import EXACT, WORKLOG
from figures import FIGURES, page
from figures.curves import bandwidth


def draw(ax: Axes, tidy: pd.DataFrame) -> None:
    """Useful GB/s against columns."""
    bandwidth(ax, tidy, "cols", "columns")


def panels(tidy: pd.DataFrame) -> page.Grid:
    """The worklog's kernels, their exact forms beside them, and what it compares them with."""
    mine, exact = tidy["variant"].isin(WORKLOG), tidy["variant"].isin(EXACT.values())
    copy = tidy["variant"] == "copy"
    return [
        [
            page.Panel("the worklog's kernels, __expf", tidy[mine & ~exact | copy], draw),
            page.Panel("the same with expf", tidy[exact | copy], draw),
            page.Panel("what it compares them with", tidy[~mine], draw),
        ]
    ]


if __name__ == "__main__":
    page.main(panels, FIGURES["worklog"])
