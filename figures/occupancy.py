"""How full are the multiprocessors, and how busy the DRAM, while a variant runs?

python -m figures.occupancy profile.csv --hardware hardware.json --stem OUTDIR/occupancy
"""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from figures import profiled
from figures.look import BLUE, ORANGE

WORDS = "means over the time of one call, as ncu sees it"
MARKS = {
    "occupancy_pct": ("achieved occupancy", "o", BLUE),
    "dram_throughput_pct": ("DRAM throughput", "D", ORANGE),
}


def draw(ax: Axes, table: pd.DataFrame, names: Sequence[str]) -> None:
    """Both in percent of the most that there can be, for a table of one point."""
    counted = table[table["status"] == "ok"]
    at = [names.index(name) for name in counted["variant"]]
    ax.hlines(at, counted["occupancy_pct"], counted["dram_throughput_pct"], color="0.8", zorder=1.5)
    for column, (label, marker, colour) in MARKS.items():
        for stale in (True, False):  # what is fresh last: the legend takes the last
            mine = counted[counted["stale"] == stale]
            heights = [names.index(name) for name in mine["variant"]]
            face = "white" if stale else colour
            ax.plot(mine[column], heights, marker, color=colour, mfc=face, label=label)
    profiled.draw_lines(ax, table, names)
    ax.xaxis.set_major_locator(FixedLocator([0, 25, 50, 75, 100]))
    ax.set(xlabel="% of what there is", xlim=(0, 106))


if __name__ == "__main__":
    profiled.main(draw, WORDS)
