"""What does a caller wait for that the device does not do?

python -m figures.launch TIDY.csv --hardware hardware.json --stem OUTDIR/launch
"""

import pandas as pd
from matplotlib.axes import Axes

from figures import FIGURES, overlay, page
from figures.look import in_order, look
from figures.rungs import time_axis

ROWS = 64
LOWER = 0.3  # of the distance between two variants


def draw(ax: Axes, tidy: pd.DataFrame) -> None:
    """A line a variant from the device's microseconds to the caller's, for a table of one shape.

    An archive's lines lie a little below.
    """
    table, archived = overlay.apart(tidy)
    names = in_order(table["variant"])
    times = table[table["status"] == "ok"].set_index(["variant", "timer"])["median_us"]
    for height, name in enumerate(names):
        if name not in times.index.get_level_values("variant"):
            ax.text(0.02, height, "not timed", transform=ax.get_yaxis_transform(), va="center")
            continue
        device, call = times[name, "device"], times[name, "call"]
        ax.plot([device, call], [height, height], color=look(name).colour, label=f"_{name}")
        ax.plot(device, height, "o", color="black", label="on the device")
        ax.plot(call, height, "D", color="0.6", label="as a caller waits")
    for name, theirs in archived.groupby("variant"):
        height = names.index(name) + LOWER
        line = look(name).line(theirs["median_us"], [height] * len(theirs))
        overlay.faint(ax, line, f"_{name} archived", marker="|", linestyle="-")
    overlay.entry(ax, archived, marker="|")
    # A copy bounds the device's time, and not a caller's.
    labels = ["copy" if name == "copy" else look(name).label for name in names]
    ax.set(yticks=range(len(names)), yticklabels=labels)
    ax.set_ylim(len(names) - 0.5, -0.5)
    time_axis(ax)
    ax.set(xlabel="µs")


def panels(tidy: pd.DataFrame) -> page.Grid:
    """One panel a number of columns, at 64 rows."""
    some = tidy[tidy["rows"] == ROWS]
    return [
        [
            page.Panel(f"{ROWS} x {cols:,}, float32", table, draw, in_legend=False)
            for cols, table in some.groupby("cols")
        ]
    ]


if __name__ == "__main__":
    page.main(
        panels,
        FIGURES["launch"],
        first="64 rows; the table has 1 and 1,024 too",
        tall=2.6,  # a line a variant
    )
