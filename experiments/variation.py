"""By how much a recorded sweep differs from itself: what a rerun may differ by without meaning it.

Of the fraction of copy on the device, in which what a whole process shares cancels.
"""

from typing import NamedTuple

import pandas as pd

from experiments.sweeps.sweep import AGAIN
from experiments.tables import DEVICE_TIMERS, POINT
from experiments.tidy import CEILINGS

# The share of (variant, point) pairs that lie within ``processes``.
SHARE = 0.95


class Variation(NamedTuple):
    """Shares: 0.01 is one in a hundred.

    processes  half the range of one variant at one point over the processes (blocks) of the run,
               over its median: 95% of them lie within
    noise      the largest median difference, at any point, of two timings of one variant
    """

    processes: float
    noise: float


def variation(raw: pd.DataFrame) -> Variation:
    """Of a RAW table; NaN where nothing was timed twice."""
    timed = raw[(raw["status"] == "ok") & raw["timer"].isin(DEVICE_TIMERS)]
    times = timed.pivot_table("time_ns", [*POINT, "block"], "variant", aggfunc="median")
    # A point that has no copy has no fraction.
    fractions = (1 / times).mul(times[[name for name in CEILINGS if name in times]].min(axis=1), 0)
    by_point = fractions.groupby(POINT)
    spread = ((by_point.max() - by_point.min()) / 2 / by_point.median()).melt()["value"]
    again = [name for name in times if str(name).endswith(AGAIN)]
    ratios = [times[name] / times[str(name).removesuffix(AGAIN)] for name in again]
    noise = [(ratio.groupby(POINT).median() - 1).abs().max() for ratio in ratios]
    return Variation(float(spread.quantile(SHARE)), float(max(noise, default=float("nan"))))
