"""What do operators move, over what they must, and what do their kernels wait for?

python -m experiments.family.limits results/archive-nvidia-h200/family/counts.csv --out counts.md
"""

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from experiments.family.fingerprint import sha256_of
from experiments.family.operator import OURS
from experiments.family.tables import COUNTS
from experiments.limits import counts, page, write
from experiments.tables import read_csv, validated

HEADS = [
    *("operator", "asked", "where", "implementation", "launches", "µs"),
    *("read / ideal", "written / ideal", "DRAM %", "occupancy %", "waves"),
    *("issue slots %", "most warps wait for", "% of those that wait"),
]
WORDS = (
    "One call a line, from empty caches, all launches of it together. Bytes are over those that an "
    "ideal implementation reads and writes (docs/operators.md, Measuring them): read and written "
    "together are 1 where nothing else is moved. What the L2 still holds at the end of a kernel "
    "has not been written, and the next kernel of a call starts without it. DRAM, occupancy and "
    "issue slots are in percent of the most that there can be, on average over the time; waves, "
    "and what most warps wait for, are those of the longest kernel; the times are no measurements."
)


def read_counts(path: Path) -> pd.DataFrame:
    """The COUNTS table in ``path``, and whether each row of ours is of earlier code: ``stale``.

    Raises BadTable where it is no such table, OSError and ValueError where it is none at all.
    """
    table = validated(COUNTS, read_csv(path))
    changed = table["operator"].map(sha256_of) != table["kernel_sha256"]
    return table.assign(stale=changed & (table["implementation"] == OURS))


def told(table: pd.DataFrame) -> str:
    """A COUNTS table, and whether each row is ``stale``, as Markdown."""
    return page("What operators move, by Nsight Compute", HEADS, WORDS, table, _named, _counts)


def _named(row: dict[str, Any]) -> list[str]:
    where = f"{row['dtype']} {' x '.join(f'{int(n):,}' for n in row['shape'].split('x'))}"
    return [row["operator"], row["asked"], where, row["implementation"]]


def _counts(row: dict[str, Any]) -> list[str]:
    return [str(row["launches"]), *counts(row, row["ideal_bytes"])]


def main(
    path: Annotated[Path, typer.Argument(help="family/counts.csv")],
    out: Annotated[Path, typer.Option(help="the page, Markdown")],
) -> None:
    """Write what each operator moves."""
    write(path, "a table of operators' counts", read_counts, told, out)


if __name__ == "__main__":
    typer.run(main)
