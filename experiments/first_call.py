"""What does a new width cost its first caller?  Its first call, with nothing compiled before.

    python -m experiments.first_call --out first_call.csv

All widths are multiples of 16 in one power of two, for which Triton's usual form is compiled once;
with shapes as constants (S1), and by torch.compile, each of them is compiled.
"""

import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import pandas as pd
import torch
import typer

from experiments.check import planted
from experiments.examine import GpuLost, attempt
from experiments.grids import FIRST_CALL_POINTS, FIRST_CALL_VARIANTS
from experiments.hardware import commit
from experiments.sweeps import Point
from experiments.tables import FIRST_CALLS, validated
from kernels.fingerprint import variant_sha256
from kernels.launch import load
from kernels.registry import variant

LATER = 11
# What is looked up at the first use of a compiler.
CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")


def waits(name: str, point: Point, device: str) -> dict[str, float]:
    """Milliseconds that a caller of variant ``name`` waits at ``point``: at first, and later."""
    softmax = load(name)
    x = planted(point.rows, point.cols, getattr(torch, point.dtype), device, seed=1)
    y = torch.empty_like(x)

    def wait_ms() -> float:
        start = time.perf_counter_ns()
        softmax(x, y)
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter_ns() - start) / 1e6

    if device == "cuda":
        torch.cuda.synchronize()
    return {"first_ms": wait_ms(), "again_ms": median(wait_ms() for _ in range(LATER))}


def report(name: str, device: str) -> list[dict[str, Any]]:
    """One row a point for variant ``name``.  Raises GpuLost."""
    of_all = {
        "variant": name,
        "kernel_sha256": variant_sha256(variant(name)),
        "code_commit": commit(),
    }
    rows = []
    for point in FIRST_CALL_POINTS:
        found, reason = attempt(name, point, device, partial(waits, name, point, device))
        told = {"status": "ok", "reason": ""} if found else {"status": "skipped", "reason": reason}
        rows.append({**of_all, **point._asdict(), **told, **(found or {})})
    return rows


def main(
    out: Annotated[Path, typer.Option(help="the waits, a CSV")],
    device: Annotated[str, typer.Option(help="cuda or cpu")] = "cuda",
) -> None:
    """Write what each first call took."""
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    with tempfile.TemporaryDirectory() as empty:
        os.environ.update(dict.fromkeys(CACHES, empty))
        try:
            table = pd.DataFrame(
                [row for name in FIRST_CALL_VARIANTS for row in report(name, device)]
            )
        except GpuLost as lost:
            print(lost, file=sys.stderr)
            raise typer.Exit(1) from lost
    out.parent.mkdir(parents=True, exist_ok=True)
    columns = list(FIRST_CALLS.columns)
    validated(FIRST_CALLS, table.reindex(columns=columns)).to_csv(out, index=False)


if __name__ == "__main__":
    typer.run(main)
