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
        import pandas as pd

        from experiments.correctness import check_all, checked
        from experiments.examine import GpuLost
        from experiments.warm import ONCE, build, warm_all

        start = time.perf_counter()
        for name in ONCE if device == "cuda" else ():  # beside all that follows
            processes.submit(build, name, device)
        first = [name for name in checked() if name not in ONCE]
        try:
            tables = [check_all(processes, device, first)]
            took = f"checked in {time.perf_counter() - start:.0f} s"
            # Not at the same time: its memory could be what a check needs.
            warmed = warm_all(processes, mode) if device == "cuda" else "nothing to compile"
            tables.append(check_all(processes, device, ONCE))
        except GpuLost as lost:
            print(lost, file=sys.stderr)
            raise typer.Exit(1) from lost
        table = pd.concat(tables, ignore_index=True)
        waited = f"all in {time.perf_counter() - start:.0f} s"
    out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(out, index=False)
    counts = table["status"].value_counts()
    found = [f"{count} {status}" for status, count in counts.items()]
    print(", ".join([*found, took, warmed, waited]))
    for row in table[table["status"] == "wrong"].itertuples():
        print(f"wrong: {row.variant} {row.dtype} {row.case} ({row.rows}, {row.cols}): {row.reason}")


if __name__ == "__main__":
    typer.run(main)
