"""What else was tried where a goal of the forward kernels is not met?  Tuning's shapes there.

    python -m experiments.attempts goals.csv --gpu nvidia-h200 --hardware hardware.json

And what serves these rows now: where that is not the fastest tried, they go by another entry of the
table, as rows that are few go by few rows, or by rows that lie alike.  Of Triton's a table has one
entry a width.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from experiments import tried
from experiments.layout import BY_NAME, CONTIGUOUS, Layout, Place
from experiments.markdown import head, line
from experiments.outcomes import read_outcomes
from experiments.tables import BadTable
from kernels.frontier.plans import Plan
from kernels.frontier.select import TABLES, Request, select, shape_of
from kernels.registry import ELEMENT_BYTES
from kernels.triton import _select as triton

GOALS, TRITON = (1, 2, 3), 5  # of copy speed, of peers and of few rows; of Triton
BEST = 3
HEADS = [
    "where", "reached", "serves now", "tuned at", "the fastest three",
    "the fastest of other regimes",
]  # fmt: skip
TRITON_HEADS = ["where, in Triton", "reached", "tuned at", "the fastest three"]
WORDS = (
    "What tuning tried there, as fractions of copy in the run that tried it: medians of a few "
    "samples, so that half a per cent says little. A run may have asked for some regimes only, "
    "beside what served the rows before. What serves them now is in **bold** where it is none of "
    "the three: the number or the place of these rows has an entry of its own."
)


@dataclass(frozen=True)
class On:
    """The GPU that shapes are selected for; ``name`` is a slug, ``arch`` 90 for sm_90."""

    name: str
    arch: int
    multiprocessors: int

    @classmethod
    def of(cls, name: str, hardware: Path) -> "On":
        """As hardware.json tells of it."""
        facts = json.loads(hardware.read_text())
        major, minor = facts["compute_capability"]
        return cls(name, 10 * major + minor, facts["multiprocessors"])

    def serves(self, layout: Layout, dtype: str, rows: int, cols: int) -> Plan:
        """What is launched for ``rows`` x ``cols`` placed by ``layout``."""
        size = ELEMENT_BYTES[dtype]
        edges = layout.edges(cols, size)
        asked = Request(
            dtype, rows, cols, edges, contiguous=layout.contiguous, lines=False, arch=self.arch,
            multiprocessors=self.multiprocessors,
        )  # fmt: skip
        return select(asked, self.name).plan(cols, size, edges)


def told(goals: pd.DataFrame, table: pd.DataFrame, gpu: On) -> str:
    """As Markdown, for places of ``goals`` that are not met on ``gpu``, what ``table`` has.

    It is as tried.py has it.
    """
    mine = goals[goals["goal"].isin(GOALS) & goals["outcome"].isin(["missed", "open"])]
    lines = ["", "Tried:", "", WORDS, "", *head(HEADS)]
    for row in mine.drop_duplicates(["place", "dtype", "rows", "cols"]).to_dict("records"):
        lines.append(line(_cells(row, table, gpu)))
    return "\n".join([*lines, ""])


def _cells(row: dict[str, Any], table: pd.DataFrame, gpu: On) -> list[str]:
    layout = BY_NAME[row["place"] or CONTIGUOUS]
    place = Place(row["dtype"], row["rows"], row["cols"], layout.name)
    found = tried_at(place, table)
    now = gpu.serves(layout, *place.point)
    known = [shape_of(entry) for entry in found.head(BEST).to_dict("records")]
    other = bool(known) and now.shape not in known
    return [
        place.told,
        f"{row['value']:.3f}: {row['statement']}",
        f"**{now.label}**" if other else now.label, tuned_at(found), *fastest(place, found),
    ]  # fmt: skip


def tried_at(place: Place, table: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``table`` for what serves ``place``, fastest first."""
    edges = BY_NAME[place.layout].edges(place.cols, ELEMENT_BYTES[place.dtype])
    return tried.at(table, place.dtype, edges, place.rows, place.cols)


def fastest(place: Place, found: pd.DataFrame) -> tuple[str, str]:
    """The fastest shapes of ``found``, tried for ``place``, and the fastest of each other regime.

    With their fractions of copy; a dash where there are none.
    """
    size = ELEMENT_BYTES[place.dtype]
    edges = BY_NAME[place.layout].edges(place.cols, size)
    first: list[tuple[str, str]] = []
    others: dict[str, str] = {}
    for entry in found.to_dict("records"):
        label = shape_of(entry).plan(entry["cols"], size, edges).label
        text = f"{label} {entry['fraction_of_copy']:.3f}"
        if len(first) < BEST:
            first.append((entry["regime"], text))
        elif entry["regime"] not in {regime for regime, _ in first}:
            others.setdefault(entry["regime"], text)
    return "; ".join(text for _, text in first) or "–", "; ".join(others.values()) or "–"


def told_of_triton(goals: pd.DataFrame, table: pd.DataFrame) -> str:
    """The same of Triton's kernels, of which ``table`` has what was tried; '' without."""
    mine = goals[(goals["goal"] == TRITON) & goals["outcome"].isin(["missed", "open"])]
    if table.empty or mine.empty:
        return ""
    lines = ["", *head(TRITON_HEADS)]
    for row in mine.drop_duplicates(["dtype", "rows", "cols"]).to_dict("records"):
        place = Place(row["dtype"], row["rows"], row["cols"])
        found = tried_at(place, table)
        shapes = [
            f"{' '.join([e['regime'], 'x'.join(map(str, e['sizes']))]).strip()}"
            f"{' raw' * e['raw']} {e['fraction_of_copy']:.3f}"
            for e in found.head(BEST).to_dict("records")
        ]
        lines.append(line([
            place.told, f"{row['value']:.3f}: {row['statement']}", tuned_at(found),
            "; ".join(shapes) or "–",
        ]))  # fmt: skip
    return "\n".join([*lines, ""])


def tuned_at(found: pd.DataFrame) -> str:
    """Of which rows, columns and commit ``found`` is."""
    if found.empty:
        return "in no run that is kept"
    rows, cols, commit = found.iloc[0][["rows", "cols", "code_commit"]]
    return f"{'many' if pd.isna(rows) else f'{rows:,}'} x {cols:,}, {commit[:7]}"


def main(
    path: Annotated[Path, typer.Argument(help="goals.csv")],
    gpu: Annotated[str, typer.Option(help="whose tables: a slug")],
    hardware: Annotated[Path, typer.Option(help="hardware.json of the source")],
) -> None:
    """Print it; nothing where nothing was tried on such a GPU."""
    table = tried.read(tried.beside(TABLES / f"{gpu}.json"))
    try:
        goals = read_outcomes(path)
    except BadTable as error:
        print(error)
        raise typer.Exit(2) from error
    if len(table):
        print(told(goals, table, On.of(gpu, hardware)), end="")
    print(told_of_triton(goals, tried.read(tried.beside(triton.TABLES / f"{gpu}.json"))), end="")


if __name__ == "__main__":
    typer.run(main)
