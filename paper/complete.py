"""The rows that a table must have before the least, the most or the number of some is stated."""

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

import pandas as pd

from experiments.claim import read_claims
from experiments.layout import LAYOUTS, points
from experiments.sweeps import SWEEPS, Point


def expected(table: str, where: Mapping[str, Any]) -> pd.DataFrame | None:
    """What tells the rows of ``table`` apart, for each that must be there; None: nobody knows.

    A sweep's rows are of the variants that ``where`` names, or else of all, at each of its points.
    """
    path = PurePosixPath(table)
    if table == "claims.csv":
        return pd.DataFrame({"id": [claim.id for claim in read_claims()]})
    if table == "layouts.csv":
        return _crossed("layout", [layout.name for layout in LAYOUTS], points())
    if path.parent.name != "tidy" or path.stem not in SWEEPS:
        return None
    sweep = SWEEPS[path.stem]
    named = where.get("variant", sweep.entries())
    return _crossed("variant", [named] if isinstance(named, str) else named, sweep.points("full"))


def _crossed(column: str, names: Iterable[str], at: Iterable[Point]) -> pd.DataFrame:
    at = tuple(at)
    return pd.DataFrame([{column: name, **p._asdict()} for name in names for p in at])
