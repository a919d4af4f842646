"""How many bytes does each variant move, over what a softmax has to?

python -m figures.dram_bytes profile.csv --hardware hardware.json --stem OUTDIR/dram_bytes
"""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from figures import profiled
from figures.look import BLUE, DASHED, ORANGE

WORDS = (
    "DRAM traffic of one call, every kernel from empty caches; what the L2 still holds when a "
    "kernel ends has not been written"
)


def draw(ax: Axes, table: pd.DataFrame, names: Sequence[str]) -> None:
    """Bytes read and written over 2MN elements, one after the other, for a table of one point."""
    counted = table[table["status"] == "ok"]
    at = [names.index(name) for name in counted["variant"]]
    read = counted["dram_read_bytes"] / counted["ideal_bytes"]
    written = counted["dram_write_bytes"] / counted["ideal_bytes"]
    parts = (("read", read, 0.0, BLUE), ("written", written, read, ORANGE))
    for label, share, left, colour in parts if at else ():
        bars = ax.barh(at, share, left=left, height=0.7, color=colour, ec=colour, label=label)
        for bar, stale in zip(bars, counted["stale"], strict=True):
            bar.set_facecolor("white" if stale else colour)
    ax.axvline(1.0, color="0.1", linestyle=(0, DASHED), label="2MN: read once, written once")
    profiled.draw_lines(ax, table, names)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    most = max(panel.dataLim.x1 for panel in ax.get_shared_x_axes().get_siblings(ax))
    ax.set(xlabel="DRAM bytes / 2MN", xlim=(0, 1.03 * most))


if __name__ == "__main__":
    profiled.main(draw, WORDS)
