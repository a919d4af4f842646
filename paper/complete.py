"""The rows that a table must have before the least, the most or the number of some is stated."""

import math
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import PurePosixPath
from typing import Any

import pandas as pd

from experiments.claim import read_claims
from experiments.goal import goals
from experiments.grids import (
    ACCURACY_INPUTS,
    ACCURACY_SHAPES,
    FIRST_CALL_POINTS,
    FIRST_CALL_VARIANTS,
)
from experiments.layout import LAYOUTS, points
from experiments.sweeps import SWEEPS, Point


def expected(table: str, where: Mapping[str, Any]) -> pd.DataFrame | None:
    """What tells the rows of ``table`` apart, for each that must be there; None: nobody knows.

    A sweep's rows are of the variants that ``where`` names, or else of all, at each of its points;
    those of a table of errors only of variants that it names, for each has dtypes of its own.
    """
    path = PurePosixPath(table)
    match table:
        case "claims.csv":
            return pd.DataFrame({"id": [claim.id for claim in read_claims()]})
        case "goals.csv":
            return _every_goal()
        case "layouts.csv":
            return _crossed("layout", [layout.name for layout in LAYOUTS], points())
        case "first_call.csv":
            return _crossed("variant", FIRST_CALL_VARIANTS, FIRST_CALL_POINTS)
        case "accuracy.csv" if {"variant", "dtype"} <= where.keys():
            every = product(_some(where["variant"]), _some(where["dtype"]), ACCURACY_SHAPES)
            at = ((name, Point(dtype, *shape)) for name, dtype, shape in every)
            rows = [{"variant": name, **p._asdict()} for name, p in at]
            return pd.DataFrame(rows).merge(pd.DataFrame({"input": ACCURACY_INPUTS}), how="cross")
    if path.parent.name != "tidy" or path.stem not in SWEEPS:
        return None
    sweep = SWEEPS[path.stem]
    return _crossed("variant", _some(where.get("variant", sweep.entries())), sweep.points("full"))


def _every_goal() -> pd.DataFrame:
    rows = [
        {
            "goal": goal.number, "statement": goal.statement, "measured": goal.source,
            "place": goal.place, **goal.point._asdict(),
        }
        for goal in goals()
    ]  # fmt: skip
    return pd.DataFrame(rows).replace("", math.nan)  # as a file is read


def _some(named: str | Iterable[str]) -> Iterable[str]:
    return [named] if isinstance(named, str) else named


def _crossed(column: str, names: Iterable[str], at: Iterable[Point]) -> pd.DataFrame:
    at = tuple(at)
    return pd.DataFrame([{column: name, **p._asdict()} for name in names for p in at])
