"""PROFILE tables as ncu would give them: each variant moves the passes that the registry names.

Of every output a part stays in the L2, and four variants read their rows again from there.
"""

from collections.abc import Iterable

import pandas as pd

from experiments.counts import watched
from experiments.ncu import METRICS, Launch
from experiments.profiler import Launches, table
from experiments.sweeps import Point
from experiments.tables import useful_bytes
from kernels.registry import Variant, variant

COMMIT = "a" * 40
PROFILER = "Nsight Compute 2025.3.1.0"
L2 = 3e7
HITS = ("triton_tiled_1024", "cuda_float4", "cuda_block_tree", "torch_naive")
WRONG = ("torch_naive", "float16")


def launch(**counts: float) -> Launch:
    """A kernel's counts, 1 where nothing else is said."""
    assert set(counts) <= set(METRICS)
    return {**dict.fromkeys(METRICS, 1.0), **counts}


def outcomes(points: Iterable[Point] = tuple(watched())) -> pd.DataFrame:
    """What the process under ncu tells of every variant at ``points``."""
    rows = []
    for point in points:
        for v in map(variant, watched()[point]):
            refusal = v.refusal(point.dtype, point.cols) or ""
            status = "skipped" if refusal else "wrong" if (v.name, point.dtype) == WRONG else "ok"
            rows.append({"variant": v.name, **point._asdict(), "status": status, "reason": refusal})
    return pd.DataFrame(rows)


def launches(points: Iterable[Point] = tuple(watched())) -> Launches:
    """What ncu counts of every variant at ``points``; the driver's copy is no kernel."""
    return {
        (v.name, point): [_launch(v, point)]
        for point in points
        for v in map(variant, watched()[point])
        if v.name != "copy_memcpy"
    }


def _launch(v: Variant, point: Point) -> Launch:
    one = useful_bytes(point.rows, point.cols, point.dtype) / 2
    reads = v.passes(point.cols) - v.writes
    moved = 1.0 if v.name in HITS and point.cols < 20_000 else reads
    spilled = 0.4 if v.name == "triton_row" and point.cols > 100_000 else 0.0
    number = len(v.name) % 5
    return launch(
        dram_read_bytes=one * (moved + spilled),
        dram_write_bytes=max(0.0, one * (v.writes + spilled) - L2),
        duration_us=one / 2e6,
        dram_throughput_pct=92.0 - 11 * number,
        occupancy_pct=(100.0, 50.0, 75.0, 97.0, 31.0)[number],
        registers=32.0 + number,
        block_size=256.0,
        grid_size=float(point.rows),
    )


def counted(points: Iterable[Point] = tuple(watched())) -> pd.DataFrame:
    """A PROFILE table of every variant at ``points``."""
    points = tuple(points)
    told = outcomes(points)
    done = told[told["status"] == "ok"]
    ran = {(r.variant, Point(r.dtype, r.rows, r.cols)) for r in done.itertuples()}
    seen = {call: counts for call, counts in launches(points).items() if call in ran}
    return table(told, seen, PROFILER, COMMIT)
