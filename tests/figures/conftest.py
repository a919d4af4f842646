"""Synthetic tidy tables: shaped like measurements of a 4 TB/s GPU, with every kind of bad point."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pandas as pd
import pytest

from experiments.sweeps import SWEEPS, Point
from experiments.sweeps.sweep import AGAIN
from experiments.tables import TIDY, gbps, useful_bytes
from experiments.tidy import baseline
from kernels.registry import BY_NAME, TOP

PEAK = 4200.0  # GB/s
# Share of the peak that a variant keeps while it holds its row, the columns it holds, the share
# beyond, microseconds at least, and how fast one row alone moves (GB/s).
MODEL = {
    "copy": (1.0, 2**30, 1.0, 1.6, 900.0),
    "copy_torch": (1.0, 2**30, 1.0, 1.8, 880.0),
    "copy_memcpy": (0.98, 2**30, 0.98, 1.7, 800.0),
    "torch_eager": (0.9, 2048, 0.48, 2.6, 16.0),
    "torch_naive": (0.2, 2**30, 0.2, 9.0, 10.0),
    "torch_compile": (0.97, 4096, 0.6, 3.0, 90.0),
    "triton_row": (0.98, 32_768, 0.12, 2.2, 12.0),
    "triton_hybrid": (0.97, 16_384, 0.45, 2.3, 14.0),
    "triton_online": (0.66, 2**30, 0.62, 2.4, 11.0),
    "cuda_thread_row": (0.02, 64, 0.004, 8.0, 0.05),
    "cuda_block_tree": (0.5, 2**30, 0.4, 2.5, 6.0),
    "cuda_float4": (0.45, 2**30, 0.42, 2.4, 9.0),
    **{f"torch_topk_{k}": (0.16, 2**30, 0.16, 6.0 + k, 9.0) for k in TOP},
    **{f"cuda_topk_{k}": (0.9 / (1 + k / 12), 2**30, 0.5, 3.0, 9.0) for k in TOP},
}
WRONG = ("triton_online", 1_048_576)
WRONG_TOO = ("triton_online", 32_000)  # in the sweeps that go no wider
STALE = "torch_naive"


def other(name: str) -> tuple[float, ...]:
    """A variant without a line of its own in MODEL: anything, and always the same."""
    number = crc32(name.encode()) % 10
    return 0.5 + number / 25, 2 ** (11 + number % 6), 0.3 + number / 40, 2.0 + number / 5, 8.0


def median_us(name: str, point: Point) -> float:
    """A time in microseconds: a floor, one row's own speed, or the memory's."""
    share, held, beyond, floor, row_gbps = MODEL.get(name) or other(name)
    one_row = useful_bytes(1, point.cols, point.dtype) / row_gbps * 1e-3
    reach = PEAK * (share if point.cols <= held else beyond) * (0.3 if point.cols < 128 else 1)
    wobble = 1 + 0.01 * (crc32(f"{name}{point}".encode()) % 7 - 3) / 3
    n_bytes = useful_bytes(*point[1:], point.dtype, name)
    return max(floor, one_row if point.rows < 132 else 0, n_bytes / reach * 1e-3) * wobble


def rows_of(sweep: str, mode: str) -> Iterator[dict]:
    timers = {"graph": "device"}
    for point in SWEEPS[sweep].points(mode):
        copy_us = median_us("copy", point)
        for entry in ("copy", *SWEEPS[sweep].entries()):
            name = entry.removesuffix(AGAIN)
            row = {
                "sweep": sweep, "variant": entry, **point._asdict(), "reason": "", "tuned": "",
                "status": "ok",
                "framework": BY_NAME[name].framework if name in BY_NAME else "torch",
                "stale": name == STALE,
            }  # fmt: skip
            refusal = BY_NAME[name].refusal(point.dtype, point.cols) if name in BY_NAME else None
            wrong = (name, point.cols) in (WRONG, WRONG_TOO)
            if refusal or wrong:
                status = "wrong" if wrong else "skipped"
                reason = "row 3 sums to 0.5" if wrong else refusal
                yield row | {"status": status, "reason": reason, "timer": "none"}
                continue
            for timer in SWEEPS[sweep].timers:
                late = 7.0 if timer == "call" else 0.0
                us = median_us(name, point) + late
                speed = gbps(useful_bytes(*point[1:], point.dtype, name), us)
                ratio = (median_us(baseline(name), point) + late) / us
                yield row | {
                    "timer": timers.get(timer, timer), "max_rel_err": 1e-6,
                    "median_us": us, "ci_low_us": us * 0.98, "ci_high_us": us * 1.03,
                    "p20_us": us * 0.97, "p80_us": us * 1.05,
                    "useful_gbps": speed, "moved_gbps": speed, "fraction_of_copy": copy_us / us,
                    "fraction_low": copy_us / us * 0.97, "fraction_high": copy_us / us * 1.02,
                    "speedup_vs_torch": ratio, "speedup_low": ratio * 0.97,
                    "speedup_high": ratio * 1.02,
                    "n_blocks": 5, "n_samples": 100, "throttled_share": 0.0,
                    "contended_share": 0.0,
                }  # fmt: skip


def tidy_of(sweep: str, mode: str = "full") -> pd.DataFrame:
    """A TIDY table of every point of ``sweep``."""
    table = pd.DataFrame(list(rows_of(sweep, mode))).reindex(columns=list(TIDY.columns))
    return TIDY.validate(table.fillna({"n_blocks": 0, "n_samples": 0}))


@pytest.fixture(scope="session")
def tidy() -> Callable[[str], pd.DataFrame]:
    made: dict[str, pd.DataFrame] = {}
    return lambda sweep: made.setdefault(sweep, tidy_of(sweep)).copy()


@pytest.fixture
def hardware(tmp_path: Path) -> Path:
    path = tmp_path / "hardware.json"
    facts = {
        "source": "archive-nvidia-h200",
        "gpu": "NVIDIA H200",
        "measured_utc": "2026-11-21T10:00:00Z",
        "mode": "full",
    }
    path.write_text(json.dumps(facts))
    return path


def resources_of(arch: str) -> pd.DataFrame:
    """A resources.csv of two variants that hold their row, one that does not, one that failed."""
    rows = []
    for log2 in range(10, 18):
        for i, dtype in enumerate(("float32", "float16", "bfloat16")):
            spill = max(0, 2**log2 - 2**15) // 12 + i
            registers = min(128, 22 + 2**log2 // 300 + i)
            rows.append(("triton_row", dtype, 2**log2, "ok", registers, spill))
            if log2 < 15:
                rows.append(("triton_hybrid", dtype, 2**log2, "ok", 22 + 2**log2 // 100 + i, 0))
    rows.append(("cuda_float4", "float32", 0, "ok", 30, 0))
    rows.append(("triton_online", "float16", 0, "failed", None, None))
    names = ["variant", "dtype", "cols_held", "status", "registers", "spill_bytes"]
    table = pd.DataFrame(rows, columns=names).assign(
        arch=arch, compiler="Triton 3.7.1", reason="", edges=False
    )
    table.loc[table["variant"] == "cuda_float4", "compiler"] = "NVRTC 13.0.88"
    return table
