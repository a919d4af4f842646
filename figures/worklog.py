"""Which of the worklog's kernels holds up as a row outgrows a warp, a block, and the registers?

python -m figures.worklog TIDY.csv --hardware hardware.json --stem OUTDIR/worklog
"""

import pandas as pd
from matplotlib.axes import Axes

from experiments.sweeps.sweep import WORKLOG
from figures import FIGURES, page
from figures.curves import bandwidth


def draw(ax: Axes, tidy: pd.DataFrame) -> None:
    """Useful GB/s against columns."""
    bandwidth(ax, tidy, "cols", "columns")


def panels(tidy: pd.DataFrame) -> page.Grid:
    """The worklog's kernels on the left, on the right what it compares them with."""
    mine, exact = tidy["variant"].isin(WORKLOG), tidy["variant"].str.endswith("_exact")
    copy = tidy["variant"] == "copy"
    return [
        [
            page.Panel("the worklog's kernels", tidy[mine & ~exact | copy], draw),
            page.Panel("and what it compares them with", tidy[~mine], draw),
            page.Panel("__expf and expf", tidy[_pairs(tidy) | copy], draw),
        ]
    ]


def _pairs(tidy: pd.DataFrame) -> pd.Series:
    """The kernels that are there with both functions."""
    exact = tidy.loc[tidy["variant"].str.endswith("_exact"), "variant"].unique()
    return tidy["variant"].isin([*exact, *(name.removesuffix("_exact") for name in exact)])


if __name__ == "__main__":
    page.main(panels, FIGURES["worklog"])
