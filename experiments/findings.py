"""What the tools of Compute Sanitizer found, for people.

    python -m experiments.findings results/archive-nvidia-h200/sanitizer.csv

Exits with 1 where a run found something, or did not come to its end.
"""

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from experiments.counts import read_beside
from experiments.markdown import head, line
from experiments.sanitizer import PLANTED
from experiments.tables import SANITIZER, BadTable, reading

HEADS = ["tool", "regime or operator", "launches", "columns", "errors", "warnings", "status"]


def told(table: pd.DataFrame) -> str:
    """A SANITIZER table, then a sentence for every run that is not ok, and how many are.

    ``stale`` of ``table``: the run watched earlier code.
    """
    rows = table.to_dict("records")
    lines = head(HEADS) + [line(_cells(row)) for row in rows]
    odd = [row for row in rows if row["status"] != "ok"]
    lines += ["", *(f"{row['tool']}, {row['regime']}: {row['reason']}" for row in odd)]
    watched = sum(row["regime"] != PLANTED for row in rows)
    found = sum(row["regime"] != PLANTED for row in odd)
    summary = f"{watched - found} of {watched} runs are clean"
    if faults := [row for row in odd if row["regime"] == PLANTED]:
        summary += f"; {', '.join(row['tool'] for row in faults)} missed what was planted"
    if earlier := dict.fromkeys(row["regime"] for row in rows if row["stale"]):
        summary += f"; stale, of earlier code: {', '.join(earlier)}"
    return "\n".join([*lines, f"{summary}."])


def _cells(row: dict[str, Any]) -> list[Any]:
    counts = ["–" if pd.isna(row[kind]) else row[kind] for kind in ("errors", "warnings")]
    columns = f"{row['least_cols']:,} to {row['most_cols']:,}"
    return [row["tool"], row["regime"], row["launches"], columns, *counts, row["status"]]


def main(
    path: Annotated[Path, typer.Argument(help="sanitizer.csv")],
) -> None:
    """Print what the tools found."""
    try:
        with reading(path, "a table of the sanitizer's runs"):
            table = read_beside(path, SANITIZER)
    except BadTable as error:
        print(error)
        raise typer.Exit(2) from error
    print(told(table))
    raise typer.Exit(int((table["status"] != "ok").any()))


if __name__ == "__main__":
    typer.run(main)
