"""The number that a claim speaks of, with its interval and its noise floor.

Block medians, ratios inside each block, one summary of the region a block; of these the median
over blocks with a 95% percentile bootstrap over blocks.  The same summary of the variant that
every block times twice is the noise floor: the difference that no code makes.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from experiments.claim import OVER, Measure
from experiments.sweeps.sweep import AGAIN, Point
from experiments.tables import DEVICE_TIMERS, POINT, gbps, useful_bytes
from experiments.tidy import CEILINGS, interval

NO_TIMES = pd.DataFrame(columns=pd.MultiIndex.from_arrays([[], []], names=["cols", "rows"]))

# Of blocks x points, in ascending order, one number a block.
Statistic = Callable[[np.ndarray], np.ndarray]
STATISTICS: Mapping[str, Statistic] = {
    "min": lambda speeds: speeds.min(axis=1),
    "max": lambda speeds: speeds.max(axis=1),
    "mean": lambda speeds: np.exp(np.log(speeds).mean(axis=1)),
    "flatness": lambda speeds: speeds.max(axis=1) / speeds.min(axis=1),
    "growth": lambda speeds: speeds[:, -1] / speeds[:, 0],
}


class NotApplicable(Exception):
    """A source says nothing about a measure; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number, its 95% interval, and the ``near`` values to which noise alone could move it.

    ``noise`` is relative, and NaN where nothing was timed twice.
    """

    value: float
    low: float
    high: float
    near: tuple[float, float]
    noise: float = 0.0
    n_points: int
    n_asked: int  # points of the region in a full run
    n_blocks: int = 0
    note: str


@dataclass(frozen=True)
class Recorded:
    """A measured sweep: its TIDY ``table``, and the nanoseconds of every block.

    ``times`` has by (variant, timer, dtype) a table of blocks x (cols, rows); ``again`` is the
    variant that was timed twice, and ``points`` are those of a full run.
    """

    table: pd.DataFrame
    times: Mapping[tuple[str, str, str], pd.DataFrame]
    again: str
    points: tuple[Point, ...]

    @classmethod
    def of(
        cls, raw: pd.DataFrame, table: pd.DataFrame, again: str, points: Iterable[Point]
    ) -> "Recorded":
        """From a RAW table and its TIDY one, which has decided what points count."""
        counted = table.loc[table["status"] == "ok", ["variant", *POINT]].drop_duplicates()
        timed = raw[raw["status"] == "ok"].merge(counted)
        timed["timer"] = timed["timer"].replace(dict.fromkeys(DEVICE_TIMERS, "device"))
        keys = ["timer", *POINT, "block"]
        medians = timed.groupby(["variant", *keys])["time_ns"].median().reset_index()
        ceilings = medians[medians["variant"].isin(CEILINGS)]
        copy = ceilings.groupby(keys)["time_ns"].min().reset_index().assign(variant="copy")
        groups = pd.concat([medians, copy]).groupby(["variant", "timer", "dtype"])
        wide = {
            key: group.set_index(["block", "cols", "rows"])["time_ns"].unstack(["cols", "rows"])  # noqa: PD010
            for key, group in groups
        }
        return cls(table, wide, again, tuple(points))

    def speeds(self, measure: Measure, name: str, reference: str = "") -> pd.DataFrame:
        """Blocks x (cols, rows): useful GB/s of ``name``, or its speed over ``reference``.

        Without the points that no block has, and then without the blocks that lack a point.
        """
        key = (measure.timer, measure.dtype, name, reference)
        if key not in self._speeds:
            self._speeds[key] = self._everywhere(*key)
        table, points = self._speeds[key]
        (rows, to_row), (cols, to_col) = measure.rows, measure.cols
        low, high = (cols, rows), (to_col, to_row)
        return table.loc[:, ((points >= low) & (points <= high)).all(axis=1)].dropna(axis=0)

    @cached_property
    def _speeds(self) -> dict[tuple[str, ...], tuple[pd.DataFrame, np.ndarray]]:
        """The speeds at all points, made when first asked for, and those points, a row each."""
        return {}

    def _everywhere(
        self, timer: str, dtype: str, name: str, reference: str
    ) -> tuple[pd.DataFrame, np.ndarray]:
        table = self.times.get((name, timer, dtype), NO_TIMES)
        if reference:
            table = self.times.get((reference, timer, dtype), NO_TIMES) / table
        else:
            bytes_of = {(c, r): useful_bytes(r, c, dtype, name) for c, r in table.columns}
            table = table.apply(lambda ns: gbps(bytes_of[ns.name], ns / 1e3))
        table = table.sort_index(axis=1).dropna(axis=1, how="all")
        return table, np.array(table.columns.to_list()).reshape(-1, 2)

    def asked(self, measure: Measure) -> list[tuple[int, int]]:
        """The (cols, rows) of the region in a full run, in ascending order."""
        return sorted(
            (p.cols, p.rows)
            for p in self.points
            if p.dtype == measure.dtype and measure.covers(p.rows, p.cols)
        )

    def region(self, measure: Measure) -> pd.DataFrame:
        """The TIDY rows in the region of ``measure``, of every variant."""
        (rows, to_row), (cols, to_col) = measure.rows, measure.cols
        if rows == to_row and cols == to_col:
            return self._at.get((measure.dtype, rows, cols), self.table.iloc[:0])
        return self.table[
            (self.table["dtype"] == measure.dtype)
            & self.table["rows"].between(*measure.rows)
            & self.table["cols"].between(*measure.cols)
        ]

    @cached_property
    def _at(self) -> dict[tuple[Any, ...], pd.DataFrame]:
        """The TIDY rows of each point: a goal asks for one at a time, hundreds of times."""
        return dict(iter(self.table.groupby(["dtype", "rows", "cols"])))

    def unmeasured(self, measure: Measure) -> int:
        """How many points of the region a full run has and this one has not."""
        seen = [measure.covers(r, c) for dtype, r, c in self._at if dtype == measure.dtype]
        return len(self.asked(measure)) - sum(seen)

    def reason(self, measure: Measure) -> str:
        """The first reason on record why a variant of ``measure`` was not timed somewhere."""
        region = self.region(measure)
        if region.empty:
            return "no point of the region was measured"
        for name in measure.names(CEILINGS):
            mine = region[region["variant"] == name]
            if mine.empty:
                return f"{name} was not measured in this region"
            if len(stopped := mine[mine["status"] != "ok"]):
                return f"{name} is {stopped['status'].iloc[0]}: {stopped['reason'].iloc[0]}"
        return f"no {measure.timer} time"


@dataclass(frozen=True)
class Beside:
    """What a source has beside its sweeps: the build's resources, and the counts of ncu."""

    resources: pd.DataFrame | None = None
    counts: pd.DataFrame | None = None


def estimate(measure: Measure, word: str, recorded: Recorded | None, beside: Beside) -> Estimate:
    """The number that ``measure`` asks for; ``word`` is the status in question, if one is.

    Raises NotApplicable where the source, in which each part may be missing, does not have it.
    """
    if measure.kind == "resource":
        return _resource(measure, beside.resources)
    if measure.kind == "traffic":
        return _traffic(measure, beside.counts)
    if recorded is None:
        raise NotApplicable(f"{measure.sweep} was not measured")
    if measure.kind == "status":
        return _status(measure, word, recorded)
    if measure.kind == "error":
        return _error(measure, recorded)
    if measure.kind == "crossover":
        return _crossover(measure, recorded)
    return _summary(measure, recorded)


def _summary(measure: Measure, recorded: Recorded) -> Estimate:
    """A ratio, a fraction, a bandwidth, a flatness or a growth."""
    statistic = STATISTICS[measure.over or measure.kind]
    table, note = _speeds(measure, recorded)
    asked = recorded.asked(measure)
    if measure.kind == "growth" and not {asked[0], asked[-1]} <= set(table.columns):
        raise NotApplicable(f"the region's first or last point was not timed; {note}")
    value, low, high = interval(statistic(table.to_numpy()))
    noise = _noise(measure, recorded, table, statistic)
    if measure.over in ("min", "max"):
        middle = table.median()
        cols, rows = middle.idxmin() if measure.over == "min" else middle.idxmax()
        note += f", the {OVER[measure.over]} at {rows:,} x {cols:,}"
    blocks, points = table.shape
    return Estimate(
        value=value, low=low, high=high, near=(value / (1 + noise), value * (1 + noise)),
        noise=noise, n_points=points, n_asked=len(recorded.asked(measure)), n_blocks=blocks,
        note=note,
    )  # fmt: skip


def _crossover(measure: Measure, recorded: Recorded) -> Estimate:
    """From where on ``variant`` is faster at every point; 0 for always, infinity for never."""
    table, note = _speeds(measure, recorded)
    noise = _noise(measure, recorded, table, STATISTICS["min"])
    by_axis = table.T.groupby(level=measure.along).min().T
    axis = [0, *by_axis.columns[1:], math.inf]

    def crossing(threshold: float) -> tuple[float, float, float]:
        onward = (by_axis > threshold).iloc[:, ::-1].cummin(axis=1).sum(axis=1)
        middle, low, high = interval((by_axis.shape[1] - onward).to_numpy())
        return axis[math.ceil(middle)], axis[math.floor(low)], axis[math.ceil(high)]

    value, low, high = crossing(1)
    # With a noise floor of n, a speed between 1/(1 + n) and 1 + n is no difference.
    near = (crossing(1 / (1 + noise))[0], crossing(1 + noise)[0])
    blocks, points = table.shape
    return Estimate(
        value=value, low=low, high=high, near=near,
        noise=noise, n_points=points, n_asked=len(recorded.asked(measure)), n_blocks=blocks,
        note=note,
    )  # fmt: skip


def _speeds(measure: Measure, recorded: Recorded) -> tuple[pd.DataFrame, str]:
    """The speeds that ``measure`` summarises, and how many points and blocks they are."""
    reference = "copy" if measure.kind == "fraction" else measure.against
    table = recorded.speeds(measure, measure.variant, reference)
    blocks, points = table.shape
    if not points:
        raise NotApplicable(recorded.reason(measure))
    if not blocks:
        raise NotApplicable("no block timed every point")
    note = f"{_counted(points, 'point')}, {_counted(blocks, 'block')}"
    unmeasured = recorded.unmeasured(measure)
    seen = len(recorded.asked(measure)) - unmeasured
    missing = [f"{unmeasured} not measured"] * (unmeasured > 0)
    if points < seen:
        missing.append(f"{seen - points} left out: {recorded.reason(measure)}")
    return table, note + (f" ({'; '.join(missing)})" if missing else "")


def _noise(
    measure: Measure, recorded: Recorded, table: pd.DataFrame, statistic: Statistic
) -> float:
    """By which share the ``statistic`` of a variant's speed over itself differs from 1."""
    pair = recorded.speeds(measure, recorded.again, recorded.again + AGAIN)
    ratios = pair.loc[:, pair.columns.isin(table.columns)].to_numpy()
    if not ratios.size:
        return math.nan
    # Either of the two may be the denominator.
    ends = [interval(statistic(speeds))[1:] for speeds in (ratios, 1 / ratios)]
    return math.expm1(np.abs(np.log(ends)).max())


def _status(measure: Measure, word: str, recorded: Recorded) -> Estimate:
    """The share of points whose status is ``word``; a point that was skipped could be either."""
    region = recorded.region(measure)
    mine = region[region["variant"] == measure.variant].drop_duplicates(POINT)
    matching, skipped = mine["status"] == word, mine["status"] == "skipped"
    if mine.empty or (skipped.all() and word != "skipped"):
        raise NotApplicable(recorded.reason(measure))
    note = f"{matching.sum()} of {_counted(len(mine), 'point')}"
    if not matching.all():
        other = mine[~matching].sort_values("status", ascending=False).iloc[0]
        note += f", {other['status']} at {other['rows']:,} x {other['cols']:,}: {other['reason']}"
    low, high = matching.mean(), (matching | skipped).mean()
    return Estimate(
        value=low, low=low, high=high, near=(low, high),
        n_points=len(mine), n_asked=len(recorded.asked(measure)), note=note.rstrip(": "),
    )  # fmt: skip


def _error(measure: Measure, recorded: Recorded) -> Estimate:
    """The largest relative error of a variant, wrong points included, or that over another's."""
    region = recorded.region(measure)
    checked = region[region["max_rel_err"].notna()].drop_duplicates(["variant", *POINT])
    tables = [checked[checked["variant"] == name] for name in measure.names(())]
    if any(table.empty for table in tables):
        raise NotApplicable(recorded.reason(measure))
    worst = [float(table["max_rel_err"].max()) for table in tables]
    value = worst[0] / worst[1] if measure.against else worst[0]
    points = len(tables[0])
    return Estimate(
        value=value, low=value, high=value, near=(value, value),
        n_points=points, n_asked=len(recorded.asked(measure)), note=_counted(points, "point"),
    )  # fmt: skip


def _resource(measure: Measure, resources: pd.DataFrame | None) -> Estimate:
    """The least or the most of a quantity over what the build compiled."""
    if resources is None or measure.arch not in set(resources["arch"]):
        raise NotApplicable(f"not built for {measure.arch}")
    wanted = {"variant": measure.variant, "arch": measure.arch, "dtype": measure.dtype}
    mine = resources[(resources[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    mine = mine[~mine["edges"]]
    if len(failed := mine[mine["status"] != "ok"]):
        raise NotApplicable(f"{measure.variant} does not compile: {failed['reason'].iloc[0]}")
    mine = mine[mine["cols_held"].between(*measure.cols)].set_index("cols_held")
    if mine.empty:
        raise NotApplicable(f"the build has no {measure.variant} that holds so many columns")
    used = mine[measure.quantity]
    value, held = float(used.agg(measure.over)), used.agg(f"idx{measure.over}")
    note = f"{_counted(len(mine), 'kernel')}, the {OVER[measure.over]} with {held:,} columns held"
    return Estimate(
        value=value, low=value, high=value, near=(value, value),
        n_points=len(mine), n_asked=len(mine), note=note,
    )  # fmt: skip


def _traffic(measure: Measure, counts: pd.DataFrame | None) -> Estimate:
    """DRAM bytes of a variant's call over those that a softmax must move, or over another's."""
    if counts is None:
        raise NotApplicable("nothing was counted here: snakemake --cores 1 profile")
    region = counts[
        (counts["dtype"] == measure.dtype)
        & counts["rows"].between(*measure.rows)
        & counts["cols"].between(*measure.cols)
    ]
    bytes_of = (region["dram_read_bytes"] + region["dram_write_bytes"]) / region["ideal_bytes"]
    by_name = bytes_of.groupby([region["variant"], region["cols"], region["rows"]]).first()
    for name in measure.names(()):
        mine = region[region["variant"] == name]
        if mine.empty:
            raise NotApplicable(f"{name} was not counted in this region")
        if len(stopped := mine[mine["status"] != "ok"]):
            raise NotApplicable(
                f"{name} is {stopped['status'].iloc[0]}: {stopped['reason'].iloc[0]}"
            )
    table = by_name[measure.variant]
    if measure.against:
        table = table / by_name[measure.against]
    value = float(STATISTICS[measure.over](table.to_numpy()[np.newaxis])[0])
    return Estimate(
        value=value, low=value, high=value, near=(value, value),
        n_points=len(table), n_asked=len(table), note=_counted(len(table), "point"),
    )  # fmt: skip


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
