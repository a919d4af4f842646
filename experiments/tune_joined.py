"""The table by which the frontier's kernels are chosen, of parts that were measured one by one.

    python -m experiments.tune_joined many.json few.json --out table.json --log tune.csv

A part of ``experiments.tune`` has what was measured beside what an earlier table has of the rest;
only that is taken.  What was tried lies beside each, and then beside the table.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from experiments import tried
from experiments.tune import in_order
from experiments.tuning import FACTS, write_table


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
    write_table(out, entries, facts)
    tried.write(tried.beside(out), every)
    every.to_csv(log, index=False)
    print(f"{len(entries)} numbers of rows and columns, {len(every)} candidates, in {out}")


if __name__ == "__main__":
    typer.run(main)
