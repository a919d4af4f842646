"""Every shape that tuning tried, beside the table of the fastest: tables/<gpu>.tried.csv.gz.

A row for each number of rows, width and shape: the fraction of copy that it reached, and of which
commit.  Points that are measured again leave their earlier rows.  Of Triton's shapes the columns of
USUAL say nothing.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from kernels.frontier.plans import ALIKE, APART, EDGES, USUAL
from kernels.frontier.select import FEW, MANY

POINT = ("dtype", "edges", "rows", "cols")
COLUMNS = [*POINT, "regime", "sizes", "raw", *USUAL, "fraction_of_copy", "code_commit"]


def beside(table: Path) -> Path:
    """Where what was tried for the entries of ``table`` lies."""
    return table.with_suffix(".tried.csv.gz")


def read(path: Path) -> pd.DataFrame:
    """What ``path`` holds: COLUMNS, rows missing where they are many; none if it is not there."""
    if not path.exists():
        return pd.DataFrame(columns=COLUMNS)
    found = pd.read_csv(path, dtype={"rows": "Int64"})
    return found.assign(sizes=found["sizes"].map(json.loads))


def keep(path: Path, told: Iterable[Mapping[str, Any]], commit: str) -> pd.DataFrame:
    """Write ``told``, entries as a table has them, with what ``path`` holds of other points."""
    new = pd.DataFrame([{**USUAL, **entry, "code_commit": commit} for entry in told])
    new = new.reindex(columns=COLUMNS).astype({"rows": "Int64"})
    old = read(path)
    again = pd.MultiIndex.from_frame(old[[*POINT]].astype(str)).isin(
        pd.MultiIndex.from_frame(new[[*POINT]].astype(str))
    )
    parts = [part for part in (old[~again], new) if len(part)]
    table = pd.concat(parts, ignore_index=True) if parts else new
    write(path, table)
    return table


def write(path: Path, table: pd.DataFrame) -> None:
    """Make ``path`` hold ``table``, byte for byte the same for the same rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False, compression={"method": "gzip", "mtime": 0})


def at(table: pd.DataFrame, dtype: str, edges: int, rows: int, cols: int) -> pd.DataFrame:
    """The rows of ``table`` for the point whose shape serves rows of ``cols``; fastest first.

    As shapes are selected: the next number of rows that was measured near such a width, and then
    the next width.  None where none was.
    """
    mine = table[(table["dtype"] == dtype) & (table["edges"] == EDGES[edges])]
    number = mine["rows"].astype("Float64").fillna(MANY)
    for each in sorted(n for n in number.unique() if n >= rows):
        some = mine[(number == each) & (mine["cols"] >= cols)]
        near = mine.loc[number == each, "cols"].min() // 2 < cols
        if len(some) and (near or (each == MANY and edges < APART)):
            point = some[some["cols"] == some["cols"].min()]
            return point.sort_values("fraction_of_copy", ascending=False)
    # Of few rows, results that lie otherwise go by those that lie alike.
    return at(table, dtype, ALIKE, rows, cols) if edges == APART and rows <= FEW else mine[:0]
