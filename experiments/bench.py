"""Time variants at one point, side by side with the copy.

python -m experiments.bench --rows 8192 --cols 32000 --variant triton_hybrid --dtype float16
ncu python -m experiments.bench --rows 8192 --cols 32000 --variant torch_eager --profile-only
"""

import json
import random
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from experiments.hardware import gpu_name
from experiments.sweeps import Point
from experiments.tables import gbps, useful_bytes
from kernels.registry import BY_NAME, DTYPES, variant

CEILINGS = tuple(v.name for v in BY_NAME.values() if v.ceiling)


def bench(names: list[str], point: Point, warmup: int, iters: int, seed: int) -> list[dict]:
    """Check and time ``names`` at ``point``, interleaved with the copies; one dict a variant.

    Times are microseconds of device time: medians over ``iters`` cold replays.
    """
    from experiments import timer
    from experiments.examine import Problem, examine
    from kernels.launch import load

    timed = list(dict.fromkeys([*CEILINGS, *names]))
    problem = Problem(point, "cuda", seed)
    outcomes = {name: examine(name, problem) for name in timed}
    del problem  # its memory goes back before the buffers are made
    ready = [name for name in timed if outcomes[name].status == "ok"]
    pairs = timer.buffers(point, "cuda", seed)
    flush = timer.Flush("cuda")
    timers = {}
    for name in ready:
        v, ns = variant(name), outcomes[name].estimate_ns
        mine = timer.pairs_for(v, pairs)
        timers[name] = timer.DeviceTimer(load(name), mine, flush, ns, v.graph)
    samples: dict[str, list[float]] = {name: [] for name in ready}
    order = random.Random(seed)
    for i in range(warmup + iters):
        for name in order.sample(ready, len(ready)):
            ns = timers[name].sample()
            if i >= warmup:
                samples[name].append(ns / 1e3)
    medians = {name: float(np.median(values)) for name, values in samples.items()}
    copy_us = min((medians[name] for name in CEILINGS if name in medians), default=float("nan"))
    rows = []
    for name in names:
        outcome = outcomes[name]
        row: dict[str, Any] = {
            "variant": name,
            **point._asdict(),
            "status": outcome.status,
            "reason": outcome.reason,
            "max_rel_err": None if np.isnan(outcome.max_rel_err) else outcome.max_rel_err,
        }
        if name in medians:
            p20, p80 = np.percentile(samples[name], (20, 80))
            row |= {
                "timer": timers[name].name,
                "median_us": medians[name],
                "p20_us": float(p20),
                "p80_us": float(p80),
                "useful_gbps": gbps(useful_bytes(*_shape(point), name), medians[name]),
                "fraction_of_copy": copy_us / medians[name],
            }
        rows.append(row)
    return rows


def profile(name: str, point: Point, seed: int) -> None:
    """Launch ``name`` once, for a profiler to watch; its compilation comes before, elsewhere."""
    import torch

    from experiments.check import planted
    from kernels.launch import load
    from kernels.outputs import empty_output

    # Made on the CPU: a kernel that fills the input would be in the profile too.
    x = planted(point.rows, point.cols, getattr(torch, point.dtype), "cpu", seed).cuda()
    out = empty_output(variant(name), x)
    torch.cuda.synchronize()
    load(name)(x, out)
    torch.cuda.synchronize()


def show(rows: list[dict], point: Point) -> None:
    """Print the rows as a table."""
    table = Table(title=f"{point.rows} x {point.cols} {point.dtype} on {gpu_name()}, L2 cold")
    table.add_column("variant")
    for title in ("median us", "p20 to p80 us", "GB/s", "of copy", "max rel. error"):
        table.add_column(title, justify="right")
    for row in rows:
        error = "" if row["max_rel_err"] is None else f"{row['max_rel_err']:.2g}"
        if row["status"] != "ok":
            table.add_row(row["variant"], row["status"], row["reason"], "", "", error)
            continue
        table.add_row(
            row["variant"],
            f"{row['median_us']:.2f}",
            f"{row['p20_us']:.2f} to {row['p80_us']:.2f}",
            f"{row['useful_gbps']:.0f}",
            f"{row['fraction_of_copy']:.3f}",
            error,
        )
    Console().print(table)


def _shape(point: Point) -> tuple[int, int, str]:
    return point.rows, point.cols, point.dtype


def main(
    rows: Annotated[int, typer.Option(min=1, help="rows (batch)")],
    cols: Annotated[int, typer.Option(min=1, help="columns (vocabulary)")],
    variants: Annotated[list[str], typer.Option("--variant", help="repeat it to compare")],
    dtype: Annotated[str, typer.Option(help=" or ".join(DTYPES))] = "float16",
    warmup: Annotated[int, typer.Option(min=0, help="replays before the first timed one")] = 10,
    iters: Annotated[int, typer.Option(min=1, help="timed replays")] = 100,
    seed: Annotated[int, typer.Option(help="input and order follow from it")] = 1,
    profile_only: Annotated[bool, typer.Option(help="one launch and nothing else")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Time variants at one point: median, spread, GB/s, fraction of copy, correctness."""
    if unknown := [name for name in variants if name not in BY_NAME]:
        raise typer.BadParameter(f"unknown variant '{unknown[0]}'; known: {', '.join(BY_NAME)}")
    if dtype not in DTYPES:
        raise typer.BadParameter(f"unknown dtype '{dtype}'; known: {', '.join(DTYPES)}")
    if gpu_name() is None:
        print("bench needs an NVIDIA GPU and its driver; `make smoke` tries the path without one")
        raise typer.Exit(2)
    point = Point(dtype, rows, cols)
    if profile_only:
        for name in variants:
            if refusal := variant(name).refusal(dtype, cols):
                raise typer.BadParameter(f"{name} {refusal}")
            profile(name, point, seed)
        return
    import torch

    from experiments.examine import GpuLost, memory_reason
    from kernels.launch import Unavailable

    try:
        result = bench(variants, point, warmup, iters, seed)
    except torch.OutOfMemoryError as error:
        print(memory_reason(point))
        raise typer.Exit(2) from error
    except (GpuLost, Unavailable) as error:
        print(error)
        raise typer.Exit(2) from error
    print(json.dumps(result, indent=2)) if as_json else show(result, point)


if __name__ == "__main__":
    typer.run(main)
