"""Are the project's own goals met?  Every goal at every point, from one source of measurements.

    python -m experiments.goals --folder results/archive-nvidia-h200 \
        --source archive-nvidia-h200 --out goals.csv --table goals.md

met      the whole interval lies where it shall
missed   none of it does
open     it reaches across, or is that of a single block
stale    measured with other code than today's
unknown  not measured
no goal  not asked there: what it is compared with has no result, or is fast enough
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from experiments.claim import Condition, Measure
from experiments.counts import read_beside
from experiments.estimate import Beside, NotApplicable, Recorded, estimate
from experiments.family.operator import OURS, TORCH
from experiments.family.tables import read_tidy
from experiments.goal import (
    ALLOWED,
    BEFORE,
    BEST_PEER,
    DECODING,
    FAMILY,
    LAUNCHES,
    MORE_NS,
    MORE_SHARE,
    PARTS,
    PEERS,
    READ,
    TILED,
    TRAINING,
    Goal,
    goals,
)
from experiments.layout import CONTIGUOUS
from experiments.outcomes import GOALS, markdown
from experiments.recorded import recorded_sweep
from experiments.sanitizer import PLANTED
from experiments.tables import (
    LAYOUTS,
    POINT,
    PROFILE,
    SANITIZER,
    BadTable,
    read_csv,
    reading,
    validated,
)
from experiments.transformer import tables as trained
from experiments.transformer.fingerprint import DECODED
from experiments.transformer.stale import complete, other_code
from experiments.transformer.summary import summary
from experiments.verdict import LEAST_BLOCKS

TABLES = {"layouts": LAYOUTS, "profile": PROFILE, "sanitizer": SANITIZER}


@dataclass(frozen=True)
class Found:
    """A number with its 95% interval and noise floor; NaN where there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan
    noise: float = 0.0
    note: str = ""
    stale: bool = False
    single: bool = False  # of one block: no interval


class NoGoal(NotApplicable):
    """Nothing is asked for at this place; the message says why."""


@dataclass(frozen=True)
class Evidence:
    """What a source has: its sweeps, and its other tables by name; what is missing is None."""

    sweeps: Mapping[str, Recorded | None]
    tables: Mapping[str, pd.DataFrame | None]

    @classmethod
    def of(cls, folder: Path, asked: Iterable[Goal]) -> "Evidence":
        """What ``asked`` are judged by, from results/<source>, or a GPU's archive for sweeps.

        Raises BadTable, which names the file that is none.
        """
        names = {goal.source for goal in asked}
        family = {name for name in names if name.startswith(FAMILY)}
        tidied = tidy if (tidy := folder / "tidy").is_dir() else None
        swept = names - family - {*TABLES, TRAINING, DECODING}
        sweeps = {name: recorded_sweep(name, folder / "raw", tidied) for name in swept}
        rivals = {name: with_rivals(found) if found else None for name, found in sweeps.items()}
        tables = {name: _table(folder, name) for name in names & {*TABLES}}
        tables |= {name: _of_operator(folder, name) for name in family}
        if TRAINING in names:
            tables[TRAINING] = _trained(folder / f"{TRAINING}.csv")
        if DECODING in names:
            tables[DECODING] = _decoded(folder / f"{DECODING}.csv")
        return cls(rivals, tables)


def _table(folder: Path, name: str) -> pd.DataFrame | None:
    path = folder / f"{name}.csv"
    if not path.exists():
        return None
    with reading(path):
        return read_beside(path, TABLES[name])


def _of_operator(folder: Path, source: str) -> pd.DataFrame | None:
    path = folder / "family" / "tidy" / f"{source.removeprefix(FAMILY)}.csv"
    if not path.exists():
        return None
    with reading(path):
        return read_tidy(path)


def _trained(path: Path) -> pd.DataFrame | None:
    if not path.exists():
        return None
    with reading(path):
        training = complete(trained.TRAINING, read_csv(path))
        return summary(training).assign(code_commit=training["code_commit"].iloc[0])


def _decoded(path: Path) -> pd.DataFrame | None:
    if not path.exists():
        return None
    with reading(path):
        decoding = complete(trained.DECODING, read_csv(path))
        return decoding.assign(stale=bool(other_code(decoding, DECODED)))


def with_rivals(recorded: Recorded) -> Recorded:
    """``recorded`` with what goals compare with as variants: formed in each block, at each point.

    The best peer takes the least time of PEERS, what came before in Triton that of triton_row, or
    of the tiled kernels where that does not run; the time allowed follows from copy.
    """
    times = dict(recorded.times)

    def least(names: Iterable[str], key: tuple[str, str]) -> pd.DataFrame | None:
        some = [times[name, *key] for name in names if (name, *key) in times]
        return pd.concat(some).groupby(level="block").min() if some else None

    for key in {(timer, dtype) for _, timer, dtype in recorded.times}:
        before = [
            some for names in (("triton_row",), TILED) if (some := least(names, key)) is not None
        ]
        copy = times.get(("copy", *key))
        made = {
            BEST_PEER: least(PEERS, key),
            BEFORE: before[0].combine_first(before[-1]) if before else None,
            ALLOWED: None if copy is None else np.maximum(copy + MORE_NS, copy * MORE_SHARE),
        }
        times |= {(name, *key): table for name, table in made.items() if table is not None}
    return replace(recorded, times=times)


def find(goal: Goal, evidence: Evidence) -> Found:
    """The number of ``goal``.  Raises NotApplicable where there is none."""
    table = evidence.tables.get(goal.source)
    if goal.source.startswith(FAMILY):
        return _aimed(goal, table)
    if goal.source == TRAINING:
        return _learned(goal, table)
    if goal.source == DECODING:
        return _told(goal, table)
    if goal.source not in TABLES:
        return _speed(goal, evidence.sweeps.get(goal.source))
    if table is None:
        raise NotApplicable(f"there is no {goal.source}.csv")
    if goal.source == "sanitizer":
        return _findings(goal, table)
    mine = table[(table[POINT] == pd.Series(goal.point._asdict())[POINT]).all(axis=1)]
    mine = mine[mine["variant"] == goal.variant]
    mine = mine[mine["layout"] == (goal.place or CONTIGUOUS)]
    if mine.empty:
        raise NotApplicable(f"{goal.source}.csv has no such row")
    row = mine.iloc[0]
    if row["status"] != "ok":
        raise NotApplicable(f"{row['status']}: {row['reason']}")
    if goal.source == "layouts":
        value, low, high = row[["fraction_of_copy", "fraction_low", "fraction_high"]]
        return Found(value, low, high, stale=row["stale"])
    both = row["dram_read_bytes"] + row["dram_write_bytes"]
    once = row["ideal_bytes"] / 2
    counted = {"": both / (2 * once), READ: row[READ] / once, LAUNCHES: float(row["launches"])}
    value = counted[goal.against]
    return Found(value, value, value, stale=row["stale"])


def _findings(goal: Goal, table: pd.DataFrame) -> Found:
    """Of a tool that found what was planted for it to find."""
    named = table.set_index(table["tool"] + ", " + table["regime"])
    tool = goal.place.split(", ")[0]
    for place in (f"{tool}, {PLANTED}", goal.place):
        if place not in named.index:
            raise NotApplicable(f"{place} was not watched")
        if pd.isna(named.loc[place, "errors"]):
            raise NotApplicable(f"{place} did not come to its end")
    if named.loc[f"{tool}, {PLANTED}", "status"] != "ok":
        raise NotApplicable(f"{tool} did not find what was planted")
    row = named.loc[goal.place]
    # A wrong result is one too.
    value = float(max(row["errors"] + row["warnings"], row["status"] == "wrong"))
    return Found(value, value, value, note=row["reason"], stale=row["stale"])


def _aimed(goal: Goal, table: pd.DataFrame | None) -> Found:
    """The column that the goal of an operator names."""
    if table is None:
        raise NotApplicable(f"{goal.source} was not measured")
    at = table[(table[POINT] == pd.Series(goal.point._asdict())[POINT]).all(axis=1)]
    at = at[at["asked"] == goal.place].set_index("implementation")
    if OURS not in at.index:
        raise NotApplicable(f"{goal.source} has no such row")
    ours, torch = at.loc[OURS], at.loc[TORCH] if TORCH in at.index else None
    if ours["status"] != "ok":
        raise NotApplicable(f"{ours['status']}: {ours['reason']}")
    if goal.variant not in at.index:
        raise NoGoal(f"{goal.variant} is missing there")
    row = at.loc[goal.variant]
    if row["status"] != "ok":
        raise NoGoal(f"{goal.variant} has no time there: {row['status']}: {row['reason']}")
    if math.isfinite(goal.slow):
        if torch is None or torch["status"] != "ok":
            told = "it is missing" if torch is None else f"{torch['status']}: {torch['reason']}"
            raise NoGoal(f"torch has no time there: {told}")
        if not torch["fraction_of_ceiling"] < goal.slow:
            reached = f"{torch['fraction_of_ceiling']:.2f} of the ceiling"
            raise NoGoal(f"torch reaches {reached}")
    value = row[goal.against]
    if math.isnan(value):
        raise NoGoal("nothing that it is compared with was timed")
    low, high = (row.get(f"{goal.against}_{end}", value) for end in ("low", "high"))
    # What has no interval is no time.
    single = f"{goal.against}_low" in row and row["n_blocks"] < LEAST_BLOCKS
    note = f"{ours['median_us']:,.4g} µs"
    if goal.variant != OURS:
        note += f"; {goal.variant}: {row['median_us']:,.4g} µs"
    return Found(value, low, high, note=note, stale=bool(ours["stale"]), single=single)


def _learned(goal: Goal, table: pd.DataFrame | None) -> Found:
    """Of the transformer that was trained with ours, alone or beside another's."""
    if table is None:
        raise NotApplicable("no transformer was trained")
    straight = table[~table["turned"]].set_index("operators")
    for name in filter(None, (goal.variant, goal.place)):
        if name not in straight.index:
            raise NotApplicable(f"no transformer was trained with operators of {name}")
    ours, column = straight.loc[goal.variant], goal.against
    note = f"trained at {ours['code_commit'][:7]}"
    if column == "distance":
        value = ours["distance"] / ours["allowed"]
        found = Found(value, value, value, note=note, single=ours["verdict"] == "open")
    else:
        found = _over(straight.loc[goal.place], ours, column, note)
    if math.isnan(found.value):
        raise NotApplicable(f"{column} was not measured")
    return replace(found, stale=bool(ours["stale"]))


def _told(goal: Goal, table: pd.DataFrame | None) -> Found:
    """Of tokens that are chosen or generated with torch's operators, beside ours."""
    if table is None:
        raise NotApplicable("no transformer told tokens")
    what, timer = goal.against.split(", ")
    batch = int(goal.place.split()[0])
    mine = table[(table["what"] == what) & (table["timer"] == timer) & (table["batch"] == batch)]
    mine = mine.set_index("operators")
    if not {OURS, TORCH} <= set(mine.index):
        raise NotApplicable(f"{goal.source}.csv has no {what} by {timer} of {goal.place}")
    ours, other = mine.loc[OURS], mine.loc[TORCH]
    note = f"{ours['median_us']:,.4g} µs; {TORCH}: {other['median_us']:,.4g} µs"
    return Found(
        other["median_us"] / ours["median_us"], other["low_us"] / ours["high_us"],
        other["high_us"] / ours["low_us"], note=note, stale=bool(ours["stale"]),
    )  # fmt: skip


def _over(other: pd.Series, ours: pd.Series, column: str, note: str) -> Found:
    """``other`` over ``ours``; an interval is the widest that those of both allow."""
    stem, _, unit = column.rpartition("_")
    low, high = (f"{stem}_{end}_{unit}" for end in ("low", "high"))
    value = other[column] / ours[column]
    if low not in ours:
        return Found(value, value, value, note=note)
    return Found(value, other[low] / ours[high], other[high] / ours[low], note=note,
                 single=ours["runs"] < LEAST_BLOCKS)  # fmt: skip


def _speed(goal: Goal, recorded: Recorded | None) -> Found:
    """The speed of the goal's variant over another, or over what with_rivals makes of several."""
    if recorded is None:
        raise NotApplicable(f"{goal.source} was not measured")
    dtype, rows, cols = goal.point
    measure = Measure(
        kind="ratio", variant=goal.variant, against=goal.against, over="mean", dtype=dtype,
        sweep=goal.source, rows=(rows, rows), cols=(cols, cols),
    )  # fmt: skip
    found = estimate(measure, "", recorded, Beside())
    names = {goal.variant, *PARTS.get(goal.against, (goal.against,))}
    region = recorded.region(measure)
    # Of this timer: what a caller waits depends on more code than what the device takes.
    mine = region[region["variant"].isin(names) & (region["timer"] == measure.timer)]
    stale = bool(mine["stale"].any())
    noise = 0.0 if math.isnan(found.noise) else found.noise
    ours, other = (_us(recorded, measure, name) for name in (goal.variant, goal.against))
    return Found(
        found.value, found.low, found.high, noise, f"{ours}; {goal.against}: {other}", stale,
        single=found.n_blocks < LEAST_BLOCKS,
    )  # fmt: skip


def _us(recorded: Recorded, measure: Measure, name: str) -> str:
    """The median over blocks, as '12.3 µs'."""
    times = recorded.times[name, measure.timer, measure.dtype]
    return f"{times[measure.cols[0], measure.rows[0]].median() / 1e3:,.4g} µs"


def outcome(goal: Goal, found: Found) -> str:
    """One of OUTCOMES for a number that was found."""
    if found.stale:
        return "stale"
    # A lead has to be more than noise; what counts as no slower may be as much slower.
    least = goal.least * (1 + found.noise) ** goal.noise
    shall = Condition("", low=least, high=goal.most)
    if not shall.admits(found.low, found.high):
        return "missed"
    if found.single or not (shall.holds(found.low) and shall.holds(found.high)):
        return "open"
    return "met"


def evaluate(evidence: Evidence, source: str) -> pd.DataFrame:
    """The GOALS table of ``source``."""
    rows = []
    for goal in goals():
        try:
            found = find(goal, evidence)
            word, note = outcome(goal, found), found.note
        except NotApplicable as error:
            word, note = "no goal" if isinstance(error, NoGoal) else "unknown", str(error)
            found = Found(math.nan, noise=math.nan)
        rows.append(
            {
                "source": source, "claim": goal.claim, "goal": goal.number,
                "statement": goal.statement,
                "measured": goal.source, "place": goal.place, **goal.point._asdict(),
                "value": found.value, "low": found.low, "high": found.high,
                "noise": found.noise, "least": goal.least, "most": goal.most,
                "outcome": word, "note": note,
            }
        )  # fmt: skip
    return validated(GOALS, pd.DataFrame(rows))


def main(
    folder: Annotated[Path, typer.Option(help="of the source: raw/, tidy/ and tables")],
    source: Annotated[str, typer.Option(help="as in local-nvidia-h200 or archive-nvidia-h200")],
    out: Annotated[Path, typer.Option(help="every goal and place as CSV")],
    table: Annotated[Path, typer.Option(help="what is met and what is not as Markdown")],
) -> None:
    """Judge every goal on one source."""
    try:
        made = evaluate(Evidence.of(folder, goals()), source)
    except BadTable as error:
        print(error)
        raise typer.Exit(2) from error
    for path in (out, table):
        path.parent.mkdir(parents=True, exist_ok=True)
    made.to_csv(out, index=False)
    table.write_text(text := markdown(made))
    print(text.splitlines()[0])


if __name__ == "__main__":
    typer.run(main)
