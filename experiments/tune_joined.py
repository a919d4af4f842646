"""The table by which the frontier's kernels are chosen, of parts that were measured one by one.

    python -m experiments.tune_joined many.json few.json --out table.json --log tune.csv

A part of ``experiments.tune`` has what was measured beside what an earlier table has of the rest;
only that is taken.  What was tried lies beside each, and then beside the table.  A shape that the
table has so far stays while it is within NOISE of the fastest: which of these comes first differs
from run to run, and rows that were recorded by a shape are stale when another is launched.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from experiments import tried
from experiments.tried import POINT
from experiments.tune import in_order
from experiments.tuning import FACTS, earlier, fastest_first, write_table
from kernels.frontier.select import shape_of

# What 99 of 100 shapes among the fastest differ by, of the fastest of their place, between two runs
# on two H200s: 0.031 of few rows, 0.028 of many, 0.012 of batches.
NOISE = 0.03


def joined(parts: list[dict[str, Any]]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The facts of the latest of ``parts``, and the entries that were measured for each.

    Those of another commit than the latest's have their own facts.
    """
    latest = max(parts, key=lambda part: part["measured_utc"])
    facts = {key: latest[key] for key in FACTS}
    found = []
    for part in parts:
        same = part["code_commit"] == facts["code_commit"]
        own = {} if same else {key: part[key] for key in FACTS[1:]}
        found += [{**own, **entry} for entry in part["entries"] if FACTS[-1] not in entry]
    return facts, sorted(found, key=in_order)


def steady(
    entries: Iterable[dict[str, Any]], before: Iterable[dict[str, Any]], every: pd.DataFrame
) -> list[dict[str, Any]]:
    """``entries``, but the shape of ``before`` where that is within NOISE of the fastest.

    It is taken as measured now, which ``every`` has; where it was not measured again, as before.
    Where it is not the fastest, the entry says that it was ``kept``.
    """
    so_far = {tuple(e[k] for k in POINT): e for e in before}
    rows = every.astype(object).where(every.notna(), None).to_dict("records")
    now = {(*(row[key] for key in POINT), shape_of(row)): row["fraction_of_copy"] for row in rows}
    found = []
    for entry in entries:
        point = {key: entry[key] for key in POINT}
        old = so_far.get(tuple(point.values()))
        if old is None:
            found.append(entry)
            continue
        shape = shape_of(old)
        fraction = now.get((*point.values(), shape))
        behind = (fraction or old["fraction_of_copy"]) < (1 - NOISE) * entry["fraction_of_copy"]
        if behind or shape == shape_of(entry):
            found.append(entry)
        elif fraction:
            own = {key: entry[key] for key in FACTS if key in entry}
            mine = fastest_first(point, {shape: fraction})[0]
            found.append({**own, **mine, "kept": True})
        else:
            found.append({**old, "kept": True})
    return found


def main(
    parts: Annotated[list[Path], typer.Argument(help="tables, of one GPU")],
    out: Annotated[Path, typer.Option(help="the table")],
    log: Annotated[Path, typer.Option(help="all that was tried, a CSV")],
) -> None:
    """Join PARTS to one table."""
    tables = [json.loads(part.read_text()) for part in parts]
    if len(gpus := sorted({table["gpu"] for table in tables})) > 1:
        raise typer.BadParameter(
            f"the parts are of {' and '.join(gpus)}, and a table is of one GPU: tune on one of them"
        )
    facts, entries = joined(tables)
    every = pd.concat([tried.read(tried.beside(part)) for part in parts], ignore_index=True)
    entries = steady(entries, earlier(out), every)
    write_table(out, entries, facts)
    tried.write(tried.beside(out), every)
    every.to_csv(log, index=False)
    print(f"{len(entries)} numbers of rows and columns, {len(every)} candidates, in {out}")


if __name__ == "__main__":
    typer.run(main)
