"""Do the course's conclusions hold at its shapes, and at those of its exercises?

python -m figures.course_shapes TIDY.csv --hardware hardware.json --stem OUTDIR/course_shapes
"""

from functools import partial

import pandas as pd
from matplotlib.axes import Axes

from figures import FIGURES, page
from figures.rungs import rungs

TIMERS = {"µs on the device": "device", "µs as a caller waits": "call"}


def draw(ax: Axes, tidy: pd.DataFrame, label: str) -> None:
    """Microseconds, a line of marks a shape; ``label`` picks the timer."""
    shapes = [f"{r.rows:,} x {r.cols:,}" for r in tidy.itertuples()]
    rungs(ax, tidy.assign(shape=shapes), "shape", TIMERS[label])
    ax.set(xlabel=label)


def panels(tidy: pd.DataFrame) -> page.Grid:
    """The device on the left, the caller on the right."""
    return [[page.Panel("float32", tidy, partial(draw, label=label)) for label in TIMERS]]


if __name__ == "__main__":
    page.main(panels, FIGURES["course_shapes"], tall=1.3)
