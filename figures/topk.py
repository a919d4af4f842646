"""What is it worth to take the k largest probabilities in the sweep that sums them?

python -m figures.topk TIDY.csv --hardware hardware.json --stem OUTDIR/topk
"""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from figures import FIGURES, overlay, page
from figures.curves import STOPS, log2_axis, timed, with_bandwidth_interval, y_axis
from figures.look import BLACK, BLUE, GREEN, ORANGE, PURPLE, VERMILLION, look
from kernels.registry import BY_NAME

# For each number of columns, the fewest first.
MARKS = ((PURPLE, "o"), (BLUE, "s"), (GREEN, "^"), (ORANGE, "D"), (VERMILLION, "v"))


def speed(ax: Axes, tidy: pd.DataFrame) -> None:
    """Speed over torch's two steps against k."""
    ax.axhline(1.0, color=BLACK, linewidth=0.8, label="torch.softmax, then torch.topk")
    lines(ax, tidy, "speedup_vs_torch", "speedup_low", "speedup_high")
    ax.set(xlabel="k", ylabel="speed over torch")


def bandwidth(ax: Axes, tidy: pd.DataFrame) -> None:
    """Useful GB/s against k, and the copy's, which differ by columns as the kernel's do."""
    copy = look("copy")
    here, _ = overlay.apart(tidy)
    ceilings = here[here["variant"] == "copy"].groupby("cols")["useful_gbps"].median()
    for lane, (cols, ceiling) in enumerate(ceilings.items()):
        colour, _ = MARKS[lane % len(MARKS)]
        ax.axhline(ceiling, color=colour, linestyle=(0, copy.dash), label=f"_copy {cols}")
    ax.plot([], [], color=copy.colour, linestyle=(0, copy.dash), label=copy.label)
    lines(ax, tidy, "useful_gbps", "gbps_low", "gbps_high")
    ax.set(xlabel="k", ylabel="useful GB/s")


def lines(ax: Axes, tidy: pd.DataFrame, y: str, low: str, high: str) -> None:
    """``y`` of the fused kernel against k, a line a number of columns."""
    table = tidy[tidy["variant"].str.startswith("cuda_topk_")]
    table = table.assign(k=[BY_NAME[name].k for name in table["variant"]]).sort_values("k")
    table, archived = overlay.apart(table)
    most = overlay.REACH * table[y].max()
    for lane, (cols, mine) in enumerate(table.groupby("cols")):
        colour, marker = MARKS[lane % len(MARKS)]
        placed = (mine["status"] == "ok") & mine[y].notna()
        theirs = archived[archived["cols"] == cols]
        if len(theirs):
            line = Line2D(theirs["k"], theirs[y], color=colour)
            overlay.faint(ax, line, f"_{cols} archived", most)
        points, face = mine[placed], "white" if mine["stale"].any() else colour
        ax.plot(points["k"], points[y], color=colour, marker=marker, markerfacecolor=face,
                label=f"{cols:,} columns")  # fmt: skip
        ax.fill_between(points["k"], points[low], points[high], color=colour, alpha=0.25, lw=0)
        for r in mine[~placed].itertuples():
            mark = STOPS["wrong" if r.status == "wrong" else "skipped"]
            ax.plot([r.k], [0.03 * (lane + 1)], mark, color=colour, markerfacecolor="none",
                    transform=ax.get_xaxis_transform(), label=f"_{cols} {r.status}")  # fmt: skip
    overlay.entry(ax, archived)
    log2_axis(ax, table["k"])
    y_axis(ax)


def panels(tidy: pd.DataFrame) -> page.Grid:
    """How much faster than torch above, how close to the memory's limit below."""
    table = with_bandwidth_interval(timed(tidy, "device"))
    return [[page.Panel("", table, draw, in_legend=False)] for draw in (speed, bandwidth)]


if __name__ == "__main__":
    page.main(panels, FIGURES["topk"], share_y="row")
