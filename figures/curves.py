"""Curves of a tidy table on one panel: intervals, stale points, and points without a time.

A point that was skipped or came out wrong has no place on the y axis, and must not vanish: each
variant with such points gets a lane at the bottom of the panel, under all data.
"""

import math
from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from experiments.sweeps.sweep import TRITON
from experiments.tables import gbps, useful_bytes
from figures import overlay
from figures.look import SUBJECT, in_order, look

STOPS = {"skipped": "|", "wrong": "x"}
LANE = 0.055  # of the panel's height
MARGIN = 0.03  # below 0, so that no marker there is cut
STRIP = 0.35  # at most, for all lanes together
MOST_TICKS = 6
# Below this traffic time is mostly latency, and GB/s says little.
LATENCY_BYTES = 16e6


def headline(table: pd.DataFrame) -> pd.DataFrame:
    """``table`` without the variants that figures/triton_paths.py compares among themselves."""
    # triton_constant is what S1's plots show: its wrapper never reached the tiled path.
    shown = {"triton_row", "triton_hybrid", "triton_constant", "triton_online"}
    hidden = set(TRITON) - shown
    return table[~table["variant"].isin(hidden)]


def timed(table: pd.DataFrame, *timers: str) -> pd.DataFrame:
    """The rows of these timers, and the points that no timer has: skipped and wrong ones."""
    return table[table["timer"].isin(timers) | (table["status"] != "ok")]


def with_bandwidth_interval(table: pd.DataFrame) -> pd.DataFrame:
    """``table`` with gbps_low and gbps_high: useful GB/s at the ends of the time's interval."""
    size = [useful_bytes(r.rows, r.cols, r.dtype, r.variant) for r in table.itertuples()]
    ends = {"gbps_low": table["ci_high_us"], "gbps_high": table["ci_low_us"]}
    return table.assign(
        **{k: [gbps(n, t) for n, t in zip(size, us, strict=True)] for k, us in ends.items()}
    )


def curves(
    ax: Axes,
    table: pd.DataFrame,
    x: str,
    y: str,
    low: str,
    high: str,
    y_log: bool = False,
    x_log: bool = True,
) -> None:
    """Draw ``y`` against ``x``, a curve a variant with a band from ``low`` to ``high``.

    What an archive has of it lies below, without bands and markers.
    """
    table, archived = overlay.apart(table.sort_values(x, kind="stable"))
    placed = (table["status"] == "ok") & table[y].notna()
    most = math.inf if y_log else overlay.REACH * table.loc[placed, y].max()
    for name, points in _by_variant(archived[archived[y].notna()]):
        line = look(name).line(points[x], points[y])
        overlay.faint(ax, line, f"_{name} archived", most, marker="")
    overlay.entry(ax, archived)
    stopped = table[~placed]
    for name, points in _by_variant(table[placed]):
        _curve(ax, name, _broken(points, stopped, x, [y, low, high]), x, y, low, high)
    for lane, (name, points) in enumerate(_by_variant(stopped)):
        _lane(ax, lane, name, points, x)
    if table.empty:
        ax.text(0.5, 0.5, "not measured", transform=ax.transAxes, ha="center", color="0.4")
    (log2_axis if x_log else linear_axis)(ax, table[x])
    y_axis(ax, y_log)


def bandwidth(ax: Axes, tidy: pd.DataFrame, x: str, label: str, x_log: bool = True) -> None:
    """Useful GB/s of device time against ``x``, which the axis calls ``label``."""
    table = with_bandwidth_interval(timed(tidy, "device"))
    curves(ax, table, x, "useful_gbps", "gbps_low", "gbps_high", x_log=x_log)
    ax.set(xlabel=label, ylabel="useful GB/s")


def _by_variant(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for name in in_order(table["variant"]):
        yield name, table[table["variant"] == name]


def _broken(points: pd.DataFrame, stopped: pd.DataFrame, x: str, ys: list[str]) -> pd.DataFrame:
    """``points`` of a variant with the places between them where it was stopped, without ``ys``.

    A line through these would look as if they had been measured.
    """
    mine = stopped[stopped["variant"].isin(points["variant"])].drop_duplicates(x)
    between = mine[x].between(points[x].min(), points[x].max()) & ~mine[x].isin(points[x])
    gaps = mine[between].assign(**dict.fromkeys(ys, math.nan), stale=points["stale"].all())
    return pd.concat([points, gaps]).sort_values(x, kind="stable") if len(gaps) else points


def _curve(ax: Axes, name: str, points: pd.DataFrame, x: str, y: str, low: str, high: str) -> None:
    style, old = look(name), points[points["stale"]]
    every = len(old) == len(points)
    # The ceiling lies under the curves that touch it, and those under the one that a figure is for.
    line = style.line(points[x], points[y], hollow=every)
    above = 2.12 if name == SUBJECT else 2.1 if style.marker else 1.9
    line.set(label=f"_{name}{' stale' if every else ''}", zorder=above)
    ax.add_line(line)
    if 0 < len(old) < len(points):
        marks = style.line(old[x], old[y], hollow=True)
        marks.set(label=f"_{name} stale", linestyle="", zorder=2.15)
        ax.add_line(marks)
    ax.fill_between(
        points[x], points[low], points[high], color=style.colour, alpha=0.25, linewidth=0
    )


def _lane(ax: Axes, lane: int, name: str, points: pd.DataFrame, x: str) -> None:
    """Marks of points without a time, and at the lane's right end the variant's marker."""
    style, height = look(name), _lane_height(lane + 1)
    across = ax.get_xaxis_transform()
    at = (lane + 0.7) * height
    for status, marker in STOPS.items():
        # A point measured without what it is compared with has no place either.
        mine = points[(points["status"] == "wrong") == (status == "wrong")]
        if len(mine):
            (mark,) = ax.plot(
                mine[x], [at] * len(mine), marker, color=style.colour, transform=across,
                clip_on=False, markerfacecolor="none", label=f"_{name} {status}",
            )  # fmt: skip
            mark.set_markeredgewidth(1.1)
    (end,) = ax.plot([1.03], [at], transform=ax.transAxes, clip_on=False, label=f"_lane {lane}")
    end.set(color=style.colour, marker=style.marker, markersize=end.get_markersize() * 0.8)


def _lane_height(lanes: int) -> float:
    return min(LANE, STRIP / lanes)


def _lanes(ax: Axes) -> int:
    return sum(str(line.get_label()).startswith("_lane ") for line in ax.lines)


# --- Axes -------------------------------------------------------------------------------------


def human(value: float, _position: object = None) -> str:
    """64, 1k (1024), 1M (1024 x 1024); what is no whole number of those is written out."""
    for size, unit in ((2**20, "M"), (2**10, "k")):
        if value >= size and value % size == 0:
            return f"{value / size:.0f}{unit}"
    return f"{value:g}"


def log2_ticks(low: float, high: float) -> list[int]:
    """Powers of two from ``low`` to ``high``: as many as a narrow panel can label."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = next(s for s in (1, 2, 4, 5, 10, 64) if (last - first) // s < MOST_TICKS)
    return [2**k for k in range(first, last + 1, step)]


def log2_axis(ax: Axes, values: Sequence[float] | pd.Series) -> None:
    """A log2 x axis over ``values`` and those of the panels that share it."""
    ax.set_xscale("log", base=2)
    _reach(ax, values)
    boxes = [a.dataLim for a in ax.get_shared_x_axes().get_siblings(ax)]
    low, high = min(b.x0 for b in boxes), max(b.x1 for b in boxes)
    if not 0 < low <= high < math.inf:
        return
    ax.set_xlim(low / 1.5, high * 1.5)
    ax.xaxis.set_major_locator(FixedLocator(log2_ticks(low, high)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(human))


def linear_axis(ax: Axes, values: Sequence[float] | pd.Series) -> None:
    """A linear x axis from 0 over ``values`` and those of the panels that share it.

    Ticks are where thousands of 1024 are.
    """
    if not len(values):
        return
    _reach(ax, values)
    high = max(a.dataLim.x1 for a in ax.get_shared_x_axes().get_siblings(ax))
    step = 1
    while high // step >= MOST_TICKS:
        step *= 2
    ax.set_xlim(0, high * 1.03)
    ax.xaxis.set_major_locator(FixedLocator([float(t) for t in range(0, int(high) + 1, step)]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(human))


def _reach(ax: Axes, values: Sequence[float] | pd.Series) -> None:
    """Count ``values`` among the data of the x axis."""
    if len(values):
        ax.update_datalim([(min(values), 1), (max(values), 1)], updatey=False)


def y_axis(ax: Axes, log: bool = False) -> None:
    """Limits over this panel and those that share its y axis, with the strip of lanes below.

    A linear axis starts at 0.
    """
    if log:
        ax.set_yscale("log")
    panels = ax.get_shared_y_axes().get_siblings(ax)
    boxes = [a.dataLim for a in panels]
    low = min(b.minposy for b in boxes) if log else 0.0
    high = max(b.y1 for b in boxes)
    if not low <= high < math.inf or high <= 0:
        return
    lanes = max(_lanes(a) for a in panels)
    strip = lanes * _lane_height(lanes) + MARGIN if lanes else MARGIN
    share = strip / (1 - strip)
    if log:
        low, high = low / 1.3, high * 1.3
        ax.set_ylim(low * (low / high) ** share, high)
        ticks = log10_ticks(low, high, room=3)
    else:
        high *= 1.05
        ax.set_ylim(-share * high, high)
        ticks = [t for t in MaxNLocator(5).tick_values(0, high) if 0 <= t <= high]
    ax.yaxis.set_major_locator(FixedLocator(ticks))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def log10_ticks(low: float, high: float, room: int = 2) -> list[float]:
    """Powers of ten from ``low`` to ``high``, with 2 and 5 between for ``room`` of them at most."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if math.log10(high / low) > room else (1, 2, 5)
    return [s * 10.0**k for k in decades for s in steps if low <= s * 10.0**k <= high]
