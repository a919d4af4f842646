"""What else was tried where a goal of the forward kernels is not met?  Tuning's shapes there.

python -m experiments.attempts results/archive-nvidia-h200/goals.csv --gpu nvidia-h200
"""

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from experiments import tried
from experiments.goals import read_outcomes
from experiments.layout import BY_NAME, CONTIGUOUS
from experiments.markdown import head, line
from experiments.tables import BadTable
from kernels.frontier.select import TABLES, shape_of
from kernels.registry import ELEMENT_BYTES

GOALS = (1, 2, 3)  # of copy speed, of peers and of few rows
BEST = 3
HEADS = ["where", "reached", "tuned at", "the fastest three", "the fastest of other regimes"]
WORDS = (
    "What tuning tried there, as fractions of copy in the run that tried it: medians of a few "
    "samples, so that half a per cent says little. A run may have asked for some regimes only, "
    "beside what served the rows before."
)


def told(goals: pd.DataFrame, table: pd.DataFrame) -> str:
    """As Markdown, for places of ``goals`` that are not met, what ``table`` has (tried.py)."""
    mine = goals[goals["goal"].isin(GOALS) & goals["outcome"].isin(["missed", "open"])]
    lines = ["", "Tried:", "", WORDS, "", *head(HEADS)]
    for row in mine.drop_duplicates(["place", "dtype", "rows", "cols"]).to_dict("records"):
        lines.append(line(_cells(row, table)))
    return "\n".join([*lines, ""])


def _cells(row: dict[str, Any], table: pd.DataFrame) -> list[str]:
    layout = BY_NAME[row["place"] or CONTIGUOUS]
    size = ELEMENT_BYTES[row["dtype"]]
    edges = layout.edges(row["cols"], size)
    found = tried.at(table, row["dtype"], edges, row["rows"], row["cols"])
    first, others = [], {}
    for entry in found.to_dict("records"):
        label = shape_of(entry).plan(entry["cols"], size, edges).label
        text = f"{label} {entry['fraction_of_copy']:.3f}"
        if len(first) < BEST:
            first.append((entry["regime"], text))
        elif entry["regime"] not in {regime for regime, _ in first}:
            others.setdefault(entry["regime"], text)
    where = f"{row['dtype']} {row['rows']:,} x {row['cols']:,}"
    return [
        where + f", {layout.name}" * bool(row["place"]),
        f"{row['value']:.3f}: {row['statement']}", _tuned_at(found),
        "; ".join(text for _, text in first) or "–", "; ".join(others.values()) or "–",
    ]  # fmt: skip


def _tuned_at(found: pd.DataFrame) -> str:
    if found.empty:
        return "in no run that is kept"
    rows, cols, commit = found.iloc[0][["rows", "cols", "code_commit"]]
    return f"{'many' if pd.isna(rows) else f'{rows:,}'} x {cols:,}, {commit[:7]}"


def main(
    path: Annotated[Path, typer.Argument(help="goals.csv")],
    gpu: Annotated[str, typer.Option(help="whose tables: a slug")],
) -> None:
    """Print it; nothing where nothing was tried on such a GPU."""
    table = tried.read(tried.beside(TABLES / f"{gpu}.json"))
    try:
        goals = read_outcomes(path)
    except BadTable as error:
        print(error)
        raise typer.Exit(2) from error
    if len(table):
        print(told(goals, table), end="")


if __name__ == "__main__":
    typer.run(main)
