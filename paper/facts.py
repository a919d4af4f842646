"""Every number that the paper and the blog print: by name, from the tables of one source.

    python -m paper.facts --folder results/archive-nvidia-h200 --out facts.json paper/facts.yaml ...

A list names what is wanted: a table, the rows, the column, and how it is written
(workflow/schemas/facts.schema.yaml).  What is not found stops the build, by name.
"""

import json
import math
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import jsonschema
import pandas as pd
import typer
import yaml

from experiments.claims import BUILD
from experiments.stale import gpu_beside, stale
from experiments.tables import BadTable
from kernels.registry import ROOT
from paper.complete import expected

SCHEMA = ROOT.parent / "workflow" / "schemas" / "facts.schema.yaml"
# The interval of a column, where the table has one.
INTERVALS = {
    "fraction_of_copy": ("fraction_low", "fraction_high"),
    "speedup_vs_torch": ("speedup_low", "speedup_high"),
    "median_us": ("ci_low_us", "ci_high_us"),
    "value": ("low", "high"),
}


class BadFact(ValueError):
    """A fact is not asked for as it should be, or its table does not have it."""


def read_facts(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """What the lists in ``paths`` ask for, by name.  Raises BadFact with the first fault."""
    schema = yaml.safe_load(SCHEMA.read_text())
    asked: dict[str, dict[str, Any]] = {}
    for path in paths:
        try:
            some = yaml.safe_load(path.read_text()) or {}
        except (OSError, yaml.YAMLError) as error:
            raise BadFact(f"{path} cannot be read: {' '.join(str(error).split())}") from error
        if fault := next(jsonschema.Draft202012Validator(schema).iter_errors(some), None):
            name = fault.absolute_path[0] if fault.absolute_path else "the list"
            raise BadFact(f"{path}, {name}: {fault.message}")
        if twice := sorted(asked.keys() & some.keys()):
            raise BadFact(f"{path}, {twice[0]}: another list has this name")
        asked |= some
    return asked


def found(
    asked: Mapping[str, Mapping[str, Any]], folder: Path, build: Path = BUILD
) -> dict[str, dict[str, Any]]:
    """The facts of ``asked`` by name, from ``folder``, a source's, and of build/... from ``build``.

    Each has its ``text``, ``value``, the ends ``low`` and ``high`` of its interval (None without
    one), and whether it is ``stale``: measured with earlier code.  Raises BadFact.
    """
    facts = {}
    for name, wanted in asked.items():
        root, *rest = PurePosixPath(wanted["table"]).parts
        path = build.joinpath(*rest) if root == "build" else folder.joinpath(root, *rest)
        try:
            facts[name] = _fact(wanted, path)
        except BadFact as error:
            raise BadFact(f"{name}: {error}") from error
    return facts


def _fact(wanted: Mapping[str, Any], path: Path) -> dict[str, Any]:
    if not path.exists():
        raise BadFact(f"{path} is missing: make the source's tables first")
    if "key" in wanted:
        told = json.loads(path.read_text())
        if wanted["key"] not in told:
            raise BadFact(f"{path} has no '{wanted['key']}'; it has {', '.join(told)}")
        value = told[wanted["key"]]
        return {**_written(value, wanted["as"]), "low": None, "high": None, "stale": False}
    table, where, take = _table(path), wanted["where"], wanted["take"]
    rows = _rows(table, where, path)
    if take == "count":
        _all_there(wanted, table, table, path)
        return {**_written(len(rows), wanted["as"]), "low": None, "high": None, "stale": False}
    column = wanted["column"]
    ok = rows["status"] == "ok" if "status" in rows else True
    done = rows[_column(rows, column, path).notna() & ok]
    if done.empty:
        raise BadFact(f"no row of {path} has {_said(where)} and a {column}")
    if take == "only" and len(done) > 1:
        raise BadFact(f"{len(done)} rows of {path} have {_said(where)}, not one")
    if take != "only":
        if odd := len(rows) - len(done):
            raise BadFact(
                f"{odd} rows of {path} with {_said(where)} are not ok, or have no {column}"
            )
        _all_there(wanted, done, table, path)
    low = high = None
    if take == "median":
        value = done[column].median()
    else:
        row = done.iloc[0] if take == "only" else done.loc[getattr(done[column], f"idx{take}")()]
        value = row[column]
        if set(ends := INTERVALS.get(column, ("", ""))) <= set(done):
            low, high = (float(row[end]) for end in ends)
    return {**_written(value, wanted["as"]), "low": low, "high": high, "stale": _stale(done, path)}


@cache
def _table(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, low_memory=False)


def _column(table: pd.DataFrame, column: str, path: Path) -> pd.Series:
    if column not in table:
        raise BadFact(f"{path} has no column '{column}'; it has {', '.join(table)}")
    return table[column]


def _rows(table: pd.DataFrame, where: Mapping[str, Any], path: Path) -> pd.DataFrame:
    """The rows of ``table``; each value that is named, ends of a range too, is one that it has."""
    for column, value in where.items():
        mine = _column(table, column, path)
        between = isinstance(value, dict)
        named = [*value.values()] if between else value if isinstance(value, list) else [value]
        if odd := [v for v in named if not (mine == v).any()]:
            raise BadFact(f"no row of {path} has {_said({**where, column: odd[0]})}")
        ends = (value.get("from", -math.inf), value.get("to", math.inf)) if between else ()
        table = table[mine.between(*ends) if between else mine.isin(named)]
    return table


def _all_there(
    wanted: Mapping[str, Any], rows: pd.DataFrame, table: pd.DataFrame, path: Path
) -> None:
    """Raises BadFact where ``rows``, which have a number, lack one of those that must be there."""
    every = expected(wanted["table"], wanted["where"])
    if every is None:
        return
    every = _rows(every, {k: v for k, v in wanted["where"].items() if k in every}, path)
    keys = [str(_column(rows, column, path).name) for column in every]
    told = every.merge(rows[keys].drop_duplicates(), how="left", indicator="side")
    gone = told.loc[told["side"] == "left_only", keys]
    if len(gone):
        first = table.merge(gone.head(1), on=keys).get("status", pd.Series(dtype=str))
        why = ", ".join(first[first != "ok"].unique()) or "the row is missing"
        what = wanted.get("column", "row")
        raise BadFact(f"{path} has no {what} of {_said(gone.iloc[0].dropna())}: {why}")


def _said(where: Mapping[str, Any] | pd.Series) -> str:
    return ", ".join(f"{column} {value}" for column, value in where.items())


def _stale(rows: pd.DataFrame, path: Path) -> bool:
    """Whether any of ``rows``, of the table in ``path``, is.  Raises BadFact."""
    if "stale" in rows:
        return bool(rows["stale"].any())
    if {"variant", "kernel_sha256"} <= set(rows):
        try:
            return bool(stale(rows, gpu_beside(path)).any())
        except BadTable as error:
            raise BadFact(str(error)) from error
    return "outcome" in rows and bool((rows["outcome"] == "stale").any())


def _written(value: Any, style: str) -> dict[str, Any]:
    """The ``text`` of ``value``, and itself."""
    if style == "text":
        return {"text": str(value), "value": value}
    number = float(value)
    if not math.isfinite(number):
        raise BadFact(f"its value is {number}, which no text can state")
    match style:
        case "int":
            text = f"{number:,.0f}"
        case "percent":
            text = f"{100 * number:.1f}%"
        case "gbps":
            text = f"{number:,.0f} GB/s"
        case "us":
            text = f"{_three(number)} µs"
        case "bytes":
            text = f"{number:,.0f} bytes"
        case _:
            text = _three(number)
    return {"text": text, "value": number}


def _three(number: float) -> str:
    """Three digits, or all before the point."""
    digits = 2 - math.floor(math.log10(abs(number))) if number else 2
    return f"{number:,.{max(0, digits)}f}"


def main(
    lists: Annotated[list[Path], typer.Argument(help="paper/facts.yaml and its like")],
    folder: Annotated[Path, typer.Option(help="results/<source>")],
    out: Annotated[Path, typer.Option(help="the facts, as JSON")],
    build: Annotated[Path, typer.Option(help="results/build, for compiled code")] = BUILD,
) -> None:
    """Write the facts of one source."""
    try:
        facts = found(read_facts(lists), folder, build)
    except BadFact as error:
        print(error)
        raise typer.Exit(2) from error
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    stale = sum(fact["stale"] for fact in facts.values())
    print(f"{len(facts)} facts, {stale} of them measured with earlier code, in {out}")


if __name__ == "__main__":
    typer.run(main)
