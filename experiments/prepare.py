"""Before the first block: check every variant on awkward inputs, compile what the sweeps run.

Both in one pool of processes, because a pool takes ten seconds to start.

    python -m experiments.prepare --device cuda --mode full --out correctness.csv
"""

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from experiments.pool import pool
from experiments.sweeps import MODES


def main(
    out: Annotated[Path, typer.Option(help="the report, a CSV")],
    mode: Annotated[str, typer.Option(help="smoke, quick or full")],
    device: Annotated[str, typer.Option(help="cuda or cpu")] = "cuda",
) -> None:
    """Write the report and say what is wrong; leave the caches warm."""
    if mode not in MODES:
        raise typer.BadParameter(f"unknown mode '{mode}'; known: {', '.join(MODES)}")
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    with pool(device) as processes:
        # Imported while the pool does the same.
        from experiments.correctness import check_all
        from experiments.examine import GpuLost
        from experiments.warm import warm_all

        start = time.perf_counter()
        try:
            table = check_all(processes, device)
        except GpuLost as lost:
            print(lost, file=sys.stderr)
            raise typer.Exit(1) from lost
        checked = f"checked in {time.perf_counter() - start:.0f} s"
        # Not at the same time: its memory could be what a check needs.
        warmed = warm_all(processes, mode) if device == "cuda" else "nothing to compile"
    out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(out, index=False)
    counts = table["status"].value_counts()
    print(", ".join([*(f"{count} {status}" for status, count in counts.items()), checked, warmed]))
    for row in table[table["status"] == "wrong"].itertuples():
        print(f"wrong: {row.variant} {row.dtype} {row.case} ({row.rows}, {row.cols}): {row.reason}")


if __name__ == "__main__":
    typer.run(main)
