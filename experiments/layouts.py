"""What does it cost where rows lie badly in memory?  The frontier in every layout, beside copy.

    python -m experiments.layouts --out layouts.csv

Copy is that of contiguous tensors of as many bytes: a copy in the same layout pays for it too.  All
are timed in turn, one sample each; ratios are formed inside a turn, and intervals are over turns.
What is written in place is read by the next call.
"""

import sys
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import torch
import typer

from experiments import timer
from experiments.check import check
from experiments.examine import GpuLost, attempt
from experiments.hardware import commit
from experiments.launches import Case, chosen, compile_all, present
from experiments.layout import LAYOUTS, Layout, points
from experiments.placed import placed
from experiments.sweeps import Point
from experiments.sweeps.sweep import COPIES
from experiments.tables import LAYOUTS as TABLE
from experiments.tables import validated
from experiments.tidy import interval
from kernels.fingerprint import variant_sha256
from kernels.launch import load
from kernels.registry import variant

NAME = "frontier"
TURNS = 15
PAIRS = 2  # of tensors of half a GiB: several times the L2 in each call
ESTIMATE_NS = 3e5


def ready(layout: Layout, point: Point, device: str, flush: timer.Flush) -> timer.DeviceTimer | str:
    """A timer of rows placed by ``layout``, or why the result there is no softmax."""
    softmax, pairs = load(NAME), []
    for seed in range(PAIRS):
        shape = point.rows, point.cols, getattr(torch, point.dtype)
        tensors = placed(layout, *shape, device, seed)
        if not pairs:
            before = tensors.x.clone()
            verdict = check(before, softmax(tensors.x, tensors.out))
            if not verdict.ok:
                return verdict.reason
        pairs.append((tensors.x, tensors.out))
    return timer.DeviceTimer(softmax, pairs, flush, ESTIMATE_NS)


def report(point: Point, device: str, flush: timer.Flush) -> Iterator[dict[str, Any]]:
    """One row a layout at ``point``.  Raises GpuLost."""
    pairs = timer.buffers(point, device, seed=1)
    graphs = {name: variant(name).graph for name in COPIES}
    copies = [timer.DeviceTimer(load(c), pairs, flush, ESTIMATE_NS, g) for c, g in graphs.items()]
    timers: dict[str, timer.DeviceTimer] = {}
    stopped: dict[str, dict[str, str]] = {}
    for layout in LAYOUTS:
        made, reason = attempt(NAME, point, device, partial(ready, layout, point, device, flush))
        if isinstance(made, timer.DeviceTimer):
            timers[layout.name] = made
        elif made:
            stopped[layout.name] = {"status": "wrong", "reason": made}
        else:
            stopped[layout.name] = {"status": "skipped", "reason": reason}
    turns = []
    for _ in range(TURNS):
        copy = min(each.sample() for each in copies)
        turns.append({"copy": copy, **{name: each.sample() for name, each in timers.items()}})
    times = pd.DataFrame(turns)
    for layout in LAYOUTS:
        row = {"variant": NAME, "layout": layout.name, **point._asdict()}
        if layout.name in stopped:
            yield {**row, **stopped[layout.name], "n_samples": 0}
            continue
        mine = times[layout.name]
        value, low, high = interval((times["copy"] / mine).to_numpy())
        yield {
            **row, "status": "ok", "reason": "", "median_us": mine.median() / 1e3,
            "copy_us": times["copy"].median() / 1e3, "fraction_of_copy": value,
            "fraction_low": low, "fraction_high": high, "n_samples": len(mine),
        }  # fmt: skip


def main(
    out: Annotated[Path, typer.Option(help="a row a layout and point, a CSV")],
    device: Annotated[str, typer.Option(help="cuda")] = "cuda",
) -> None:
    """Write what each layout costs."""
    rows = []
    try:
        gpu, flush = present(), timer.Flush(device)
        asked = product(LAYOUTS, points())
        compile_all(Case(chosen(layout, *p, gpu), *p, layout) for layout, p in asked)
        for point in points():
            rows += report(point, device, flush)
            torch.cuda.empty_cache()
    except GpuLost as lost:
        print(lost, file=sys.stderr)
        raise typer.Exit(1) from lost
    of_all = {"kernel_sha256": variant_sha256(variant(NAME)), "code_commit": commit()}
    table = pd.DataFrame(rows).assign(**of_all).reindex(columns=list(TABLE.columns))
    out.parent.mkdir(parents=True, exist_ok=True)
    validated(TABLE, table).to_csv(out, index=False)


if __name__ == "__main__":
    typer.run(main)
