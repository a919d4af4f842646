"""What does a decoding step wait for: few rows of a language model's vocabulary?

python -m figures.small_batch TIDY.csv --hardware hardware.json --stem OUTDIR/small_batch
"""

from functools import partial

import pandas as pd
from matplotlib.axes import Axes

from figures import FIGURES, page
from figures.curves import curves, headline, timed

ON_DEVICE, AS_CALLER = "µs on the device", "µs as a caller waits"
TIMERS = {ON_DEVICE: "device", AS_CALLER: "call"}


def draw(ax: Axes, tidy: pd.DataFrame, label: str = ON_DEVICE) -> None:
    """Microseconds against rows, for a table of one number of columns; ``label`` picks a timer."""
    table = timed(tidy, TIMERS[label])
    curves(ax, table, "rows", "median_us", "ci_low_us", "ci_high_us", y_log=True)
    ax.set(xlabel="rows", ylabel=label)


def panels(tidy: pd.DataFrame) -> page.Grid:
    """One column of panels a vocabulary; a second row where calls were timed too."""
    tidy = headline(tidy)
    labels = [ON_DEVICE, AS_CALLER] if (tidy["timer"] == "call").any() else [ON_DEVICE]
    vocabularies = [
        (f"{dtype}\n{cols:,} columns", table)
        for (dtype, cols), table in tidy.groupby(["dtype", "cols"])
    ]
    return [
        [
            page.Panel(title if label == ON_DEVICE else "", table, partial(draw, label=label))
            for title, table in vocabularies
        ]
        for label in labels
    ]


if __name__ == "__main__":
    page.main(panels, FIGURES["small_batch"])
