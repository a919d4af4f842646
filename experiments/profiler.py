"""Count the bytes that each variant moves, and what it occupies, with Nsight Compute.

One ncu watches one process (experiments/profiled.py): starting either takes longer than watching
a kernel.  Where ncu is refused the GPU's counters every row of the table says so.

    python -m experiments.profiler --out profile.csv
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from experiments import ncu
from experiments.counts import watched
from experiments.hardware import commit
from experiments.layout import Place
from experiments.ncu import BadReport, Launch, Refused
from experiments.tables import PLACE, PROFILE, read_csv, useful_bytes, validated
from kernels.fingerprint import sha256_now
from kernels.registry import variant

UNSEEN = "launched no kernel that ncu sees: a copy by the driver is none"
AGAIN = "snakemake --cores 1 profile -R profile_table"

Launches = Mapping[tuple[str, Place], Sequence[Launch]]
# From outcomes, ncu's report (None where it was refused), its version and the commit, a table.
Tabulated = Callable[[pd.DataFrame, str | None, str, str], pd.DataFrame]


def table(outcomes: pd.DataFrame, launches: Launches, profiler: str, commit: str) -> pd.DataFrame:
    """The PROFILE table: ``outcomes`` (status and reason, a row a variant and place) and counts.

    Raises BadReport where kernels were watched of which there is no outcome.
    """
    rows = []
    for row in outcomes.to_dict("records"):
        name, place = row["variant"], Place(*(row[key] for key in PLACE))
        rows.append(
            {
                **with_counts(row, launches.get((name, place), ())),
                "framework": variant(name).framework,
                "ideal_bytes": useful_bytes(place.rows, place.cols, place.dtype),
                "profiler": profiler,
                "kernel_sha256": sha256_now(name),
                "code_commit": commit,
            }
        )
    told = {(r["variant"], Place(*(r[key] for key in PLACE))) for r in rows}
    if strange := sorted(set(launches) - told):
        raise BadReport(f"it holds kernels of {strange[0][0]} at {strange[0][1]}, which never ran")
    return validated(PROFILE, pd.DataFrame(rows).reindex(columns=list(PROFILE.columns)))


def with_counts(row: Mapping[Any, Any], launches: Sequence[Launch]) -> dict[Any, Any]:
    """``row`` (status and reason of a call) with what was counted of its ``launches``, if it is ok.

    It is skipped where there are none.
    """
    seen = launches if row["status"] == "ok" else ()
    unseen = {"status": "skipped", "reason": UNSEEN} if row["status"] == "ok" and not seen else {}
    counts = _together(seen) if seen else {"stall": ""}
    return {**row, **unseen, "launches": len(seen), **counts}


def _together(launches: Sequence[Launch]) -> dict[str, Any]:
    """One call's kernels as one: sums, means over time, shape and stalls of the longest."""
    longest = max(launches, key=lambda launch: launch["duration_us"])
    us = sum(launch["duration_us"] for launch in launches)
    sums = ("dram_read_bytes", "dram_write_bytes", "duration_us")
    means = ("dram_throughput_pct", "occupancy_pct", "issue_pct")
    reason, share = ncu.stall(longest)
    return {
        **{key: longest[key] for key in ("waves", "registers", "block_size", "grid_size")},
        **{"stall": reason, "stall_pct": share},
        **{key: sum(launch[key] for launch in launches) for key in sums},
        **{key: sum(v[key] * v["duration_us"] for v in launches) / us for key in means},
    }


def refused(reason: str) -> pd.DataFrame:
    """A row for each variant and place that says why there are no counts."""
    rows = [
        {"variant": name, **place._asdict(), "status": "skipped", "reason": reason}
        for place, names in watched().items()
        for name in names
    ]
    return pd.DataFrame(rows)


def run(module: str, folder: Path) -> tuple[str, pd.DataFrame]:
    """ncu's report, and the outcomes of the process of ``module`` that it watched, in ``folder``.

    Raises Refused, and BadReport where the process did not come to its end.
    """
    report, outcomes = folder / "report.csv", folder / "outcomes.csv"
    program = [sys.executable, "-m", module, "--out", str(outcomes)]
    done = subprocess.run(ncu.command(report, program), check=False)
    text = report.read_text(errors="replace") if report.exists() else ""
    if not outcomes.exists():
        if ncu.FORBIDDEN in text:
            ncu.read(text)
        why = ncu.error(text) or f"exit {done.returncode}"
        raise BadReport(f"{module} did not come to its end under ncu: {why}")
    return text, read_csv(outcomes)


def write(
    out: Path, module: str, tabulated: Tabulated, refused: Callable[[str], pd.DataFrame], then: str
) -> None:
    """Let ncu watch ``module``, and write its table to ``out``; say so where ncu may not count.

    ``refused`` gives the outcomes of a reason why nothing was counted, and ``then`` says what to do
    once that is mended.  Exits with 2 without ncu, and with 1 where its report is none.
    """
    if not ncu.installed():
        print("ncu (Nsight Compute) is not on PATH: install it, or add its folder")
        raise typer.Exit(2)
    now, profiler = commit(), ncu.version()
    with tempfile.TemporaryDirectory() as folder:
        try:
            text, outcomes = run(module, Path(folder))
            made = tabulated(outcomes, text, profiler, now)
        except Refused as error:
            made = tabulated(refused(str(error)), None, profiler, now)
            print(f"{error}; then: {then}")
        except BadReport as error:
            print(f"no profile from ncu's report: {error}")
            raise typer.Exit(1) from error
    out.parent.mkdir(parents=True, exist_ok=True)
    made.to_csv(out, index=False)
    counts = made["status"].value_counts()
    print(", ".join(f"{count} {status}" for status, count in counts.items()))


def main(out: Annotated[Path, typer.Option(help="the table, a CSV")]) -> None:
    """Write the table; say so where ncu may not count."""

    def tabulated(
        outcomes: pd.DataFrame, text: str | None, profiler: str, commit: str
    ) -> pd.DataFrame:
        return table(outcomes, {} if text is None else ncu.read(text), profiler, commit)

    then = f"{AGAIN}; until then the archive's table is drawn instead"
    write(out, "experiments.profiled", tabulated, refused, then)


if __name__ == "__main__":
    typer.run(main)
