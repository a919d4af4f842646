"""PROFILE tables as ncu would give them: each variant moves the passes that the registry names.

Of every output a part stays in the L2, and four variants read their rows again from there.
"""

from collections.abc import Iterable

import pandas as pd

from experiments.counts import watched
from experiments.layout import Place
from experiments.ncu import METRICS, STALLS, Launch
from experiments.profiler import Launches, table
from experiments.tables import PLACE, useful_bytes
from kernels.registry import Variant, variant

COMMIT = "a" * 40
PROFILER = "Nsight Compute 2025.3.1.0"
L2 = 3e7
HITS = ("triton_tiled_1024", "cuda_float4", "cuda_block_tree", "torch_naive")
WRONG = ("torch_naive", "float16")


def launch(**counts: float) -> Launch:
    """A kernel's counts, 1 where nothing else is said, and the stalls that are."""
    assert set(counts) <= {*METRICS, *STALLS}
    return {**dict.fromkeys(METRICS, 1.0), **counts}


def outcomes(places: Iterable[Place] = tuple(watched())) -> pd.DataFrame:
    """What the process under ncu tells of every variant at ``places``."""
    rows = []
    for place in places:
        for v in map(variant, watched()[place]):
            refusal = v.refusal(place.dtype, place.cols) or ""
            status = "skipped" if refusal else "wrong" if (v.name, place.dtype) == WRONG else "ok"
            rows.append({"variant": v.name, **place._asdict(), "status": status, "reason": refusal})
    return pd.DataFrame(rows)


def launches(places: Iterable[Place] = tuple(watched())) -> Launches:
    """What ncu counts of every variant at ``places``; the driver's copy is no kernel."""
    return {
        (v.name, place): [_launch(v, place)]
        for place in places
        for v in map(variant, watched()[place])
        if v.name != "copy_memcpy"
    }


def _launch(v: Variant, place: Place) -> Launch:
    one = useful_bytes(place.rows, place.cols, place.dtype) / 2
    reads = v.passes(place.cols) - v.writes
    moved = 1.0 if v.name in HITS and place.cols < 20_000 else reads
    spilled = 0.4 if v.name == "triton_row" and place.cols > 100_000 else 0.0
    number = len(v.name) % 5
    return launch(
        dram_read_bytes=one * (moved + spilled),
        dram_write_bytes=max(0.0, one * (v.writes + spilled) - L2),
        duration_us=one / 2e6,
        dram_throughput_pct=92.0 - 11 * number,
        occupancy_pct=(100.0, 50.0, 75.0, 97.0, 31.0)[number],
        registers=32.0 + number,
        block_size=256.0,
        grid_size=float(place.rows),
        long_scoreboard=9.0,
        barrier=1.0,
    )


def counted(places: Iterable[Place] = tuple(watched()), without: str = "") -> pd.DataFrame:
    """A PROFILE table of every variant at ``places``; ``without`` one that is not installed."""
    places = tuple(places)
    told = outcomes(places)
    told.loc[told["variant"] == without, ["status", "reason"]] = "skipped", "not installed"
    done = told[told["status"] == "ok"]
    ran = {(r["variant"], Place(*(r[key] for key in PLACE))) for r in done.to_dict("records")}
    seen = {call: counts for call, counts in launches(places).items() if call in ran}
    return table(told, seen, PROFILER, COMMIT)
