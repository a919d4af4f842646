"""Count the bytes that operators move with Nsight Compute, ours and torch's, at a few cases.

As experiments/profiler.py: one ncu watches one process (experiments/family/profiled.py), every
kernel from empty caches.  Where it is refused the GPU's counters every row of the table says so.

    python -m experiments.family.profiler --out family/counts.csv
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from experiments import ncu
from experiments.family import OPERATORS
from experiments.family.counts import Watched, call_of, watched
from experiments.family.fingerprint import sha256_of
from experiments.family.tables import COUNTS
from experiments.ncu import BadReport, Launch
from experiments.profiler import with_counts, write
from experiments.tables import validated


def table(
    outcomes: pd.DataFrame, launches: Mapping[Watched, Sequence[Launch]], profiler: str, commit: str
) -> pd.DataFrame:
    """The COUNTS table: ``outcomes`` (status and reason, a row a call) and counts.

    Raises BadReport where kernels were watched of which there is no outcome.
    """
    rows, told = [], set()
    for row in outcomes.to_dict("records"):
        call = Watched(*(row[key] for key in Watched._fields))
        told.add(call)
        rows.append(
            {
                **with_counts(row, launches.get(call, ())),
                **call.case.columns,
                "ideal_bytes": OPERATORS[call.operator].n_bytes(call.case),
                "profiler": profiler,
                "kernel_sha256": sha256_of(call.operator),
                "code_commit": commit,
            }
        )
    if strange := sorted(set(launches) - told):
        raise BadReport(f"it holds kernels of {strange[0]}, which never ran")
    return validated(COUNTS, pd.DataFrame(rows).reindex(columns=list(COUNTS.columns)))


def refused(reason: str) -> pd.DataFrame:
    """A row for each call that says why there are no counts."""
    return pd.DataFrame(
        [{**call._asdict(), "status": "skipped", "reason": reason} for call in watched()]
    )


def main(out: Annotated[Path, typer.Option(help="the table, a CSV")]) -> None:
    """Write the table; say so where ncu may not count."""

    def tabulated(
        outcomes: pd.DataFrame, text: str | None, profiler: str, commit: str
    ) -> pd.DataFrame:
        seen = {} if text is None else ncu.launches(text, call_of)
        return table(outcomes, seen, profiler, commit)

    then = f"snakemake --cores 1 {out} -R family_counts"
    write(out, "experiments.family.profiled", tabulated, refused, then)


if __name__ == "__main__":
    typer.run(main)
