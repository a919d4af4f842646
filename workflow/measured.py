"""The tables of README.md and docs/operators.md of what archives hold of every operator."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from experiments.family import OPERATORS
from experiments.family.archived import samples
from experiments.family.backward import ADD
from experiments.family.operator import OURS, PLAIN, TORCH
from experiments.family.others import COPIES
from experiments.family.tables import read_raw
from experiments.family.tidy import COPY, tidy
from experiments.markdown import STALE, head, line

NONE = "–"
# What is none of the others that somebody might take instead.
OWN = (OURS, PLAIN, TORCH, ADD, COPY, *COPIES)
HEADS = [
    "operator", "asked", "places", "fraction of the ceiling", "times torch's speed",
    "times the best other's", "largest error", "of at most",
]  # fmt: skip


def operators(archive: Path) -> str:
    """A line for whatever is asked of an operator: ranges over the places where ours was timed.

    From the samples in the folder ``archive`` of one GPU.
    """
    lines = head(HEADS)
    for name, operator in OPERATORS.items():
        path = archive / samples(name)
        if not path.exists():
            lines.append(line([f"`{name}`", *["not yet"] * (len(HEADS) - 1)]))
            continue
        table = tidy(read_raw(path))
        for asked in dict.fromkeys(case.asked for case in operator.cases):
            mine = table[(table["asked"] == asked) & (table["implementation"] == OURS)]
            if mine.empty:  # asked since the archive was recorded
                lines.append(line([f"`{name}`", asked, *["not yet"] * (len(HEADS) - 2)]))
                continue
            timed = mine[mine["status"] == "ok"]
            fraction = NONE if operator.waits else _range(timed["fraction_of_ceiling"])
            lines.append(
                line([
                    f"`{name}`", asked, _places(len(timed), len(mine)), fraction,
                    _range(timed["speedup_vs_torch"]), _range(_over_others(table, timed)),
                    f"{mine['error'].max():.2g}", f"{mine['tolerance'].max():.2g}",
                ])
            )  # fmt: skip
    return "\n".join(lines)


def overview(archives: Mapping[str, Path]) -> str:
    """A line an operator; of each GPU's archive the ranges over all that the operator was asked.

    With a dagger where some of it was measured with other code than today's.
    """
    parts = ("of the ceiling", "times torch's speed")
    lines = head(["operator", *(f"{gpu}: {part}" for gpu in archives for part in parts)])
    for name, operator in OPERATORS.items():
        cells = [f"`{name}`"]
        for folder in archives.values():
            path = folder / samples(name)
            if not path.exists():
                cells += ["not yet", "not yet"]
                continue
            table = tidy(read_raw(path))
            timed = table[(table["implementation"] == OURS) & (table["status"] == "ok")]
            fraction = NONE if operator.waits else _range(timed["fraction_of_ceiling"])
            told = (fraction, _range(timed["speedup_vs_torch"]))
            mark = STALE if timed["stale"].any() else ""
            cells += [cell + mark * (cell != NONE) for cell in told]
        lines.append(line(cells))
    return "\n".join(lines)


def _places(timed: int, asked: int) -> str:
    return str(timed) if timed == asked else f"{timed} of {asked}"


def _over_others(table: pd.DataFrame, mine: pd.DataFrame) -> pd.Series:
    """The least time of the others over ours, at each place where one of them was timed."""
    place = ["asked", "dtype", "shape"]
    others = table[(table["status"] == "ok") & ~table["implementation"].isin(OWN)]
    best = others.groupby(place)["median_us"].min()
    return (best / mine.set_index(place)["median_us"]).dropna()


def _range(values: pd.Series) -> str:
    known = values.dropna()
    return f"{known.min():.3g} to {known.max():.3g}" if len(known) else NONE
