"""Every number that the paper and the blog print: by name, from the tables of one source.

    python -m paper.facts --folder results/archive-nvidia-h200 --out facts.json paper/facts.yaml ...

A list names what is wanted: a table, the rows, the column, and how it is written
(workflow/schemas/facts.schema.yaml).  What is not found stops the build, by name.
"""

import json
import math
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import jsonschema
import pandas as pd
import typer
import yaml

from kernels.fingerprint import variant_sha256
from kernels.registry import BY_NAME, ROOT

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


def found(asked: Mapping[str, Mapping[str, Any]], folder: Path) -> dict[str, dict[str, Any]]:
    """The facts that ``folder``, a source's, has for ``asked``, by name.

    Each has its ``text``, ``value``, the ends ``low`` and ``high`` of its interval (None without
    one), and whether it is ``stale``: measured with earlier code.  Raises BadFact.
    """
    facts = {}
    for name, wanted in asked.items():
        try:
            facts[name] = _fact(wanted, folder)
        except BadFact as error:
            raise BadFact(f"{name}: {error}") from error
    return facts


def _fact(wanted: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    path = folder / wanted["table"]
    if not path.exists():
        raise BadFact(f"{path} is missing: make the source's tables first")
    if "key" in wanted:
        told = json.loads(path.read_text())
        if wanted["key"] not in told:
            raise BadFact(f"{path} has no '{wanted['key']}'; it has {', '.join(told)}")
        value = told[wanted["key"]]
        return {**_written(value, wanted["as"]), "low": None, "high": None, "stale": False}
    rows = _rows(_table(path), wanted["where"], path)
    if wanted["take"] == "count":
        return {**_written(len(rows), wanted["as"]), "low": None, "high": None, "stale": False}
    column = wanted["column"]
    if column not in rows:
        raise BadFact(f"{path} has no column '{column}'; it has {', '.join(rows)}")
    rows = rows[rows[column].notna()]
    if rows.empty:
        raise BadFact(f"no row of {path} has {_said(wanted['where'])} and a {column}")
    low = high = None
    match wanted["take"]:
        case "only":
            if len(rows) > 1:
                raise BadFact(f"{len(rows)} rows of {path} have {_said(wanted['where'])}, not one")
            row = rows.iloc[0]
        case "min" | "max" as end:
            row = rows.loc[getattr(rows[column], f"idx{end}")()]
        case _:
            row = None
    if row is not None and set(ends := INTERVALS.get(column, ("", ""))) <= set(rows):
        low, high = (float(row[end]) for end in ends)
    value = rows[column].median() if row is None else row[column]
    return {**_written(value, wanted["as"]), "low": low, "high": high, "stale": _stale(rows)}


@cache
def _table(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, low_memory=False)


def _rows(table: pd.DataFrame, where: Mapping[str, Any], path: Path) -> pd.DataFrame:
    for column, value in where.items():
        if column not in table:
            raise BadFact(f"{path} has no column '{column}'; it has {', '.join(table)}")
        mine = table[column]
        match value:
            case {"from": least, "to": most}:
                table = table[mine.between(least, most)]
            case {"from": least}:
                table = table[mine >= least]
            case {"to": most}:
                table = table[mine <= most]
            case _:
                values = value if isinstance(value, list) else [value]
                if odd := [v for v in values if not (mine == v).any()]:
                    raise BadFact(f"no row of {path} has {_said({**where, column: odd[0]})}")
                table = table[mine.isin(values)]
    return table


def _said(where: Mapping[str, Any]) -> str:
    return ", ".join(f"{column} {value}" for column, value in where.items())


def _stale(rows: pd.DataFrame) -> bool:
    if "stale" in rows:
        return bool(rows["stale"].any())
    if {"variant", "kernel_sha256"} <= set(rows):
        pairs = rows[["variant", "kernel_sha256"]].drop_duplicates().itertuples(index=False)
        return any(variant_sha256(BY_NAME[name]) != sha for name, sha in pairs)
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
) -> None:
    """Write the facts of one source."""
    try:
        facts = found(read_facts(lists), folder)
    except BadFact as error:
        print(error)
        raise typer.Exit(2) from error
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    stale = sum(fact["stale"] for fact in facts.values())
    print(f"{len(facts)} facts, {stale} of them measured with earlier code, in {out}")


if __name__ == "__main__":
    typer.run(main)
