"""Columns of the tables that stages hand to one another (pandera schemas).

RAW    one row a sample; results/<source>/raw/<sweep>.csv.gz
TIDY   one row a (variant, timer, point); results/<source>/tidy/<sweep>.csv

Times are nanoseconds in RAW and microseconds in TIDY; bandwidths are GB/s (1e9 bytes).
"""

from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa

from kernels.registry import DTYPES, ELEMENT_BYTES

SCHEMA_VERSION = 1
STATUSES = ("ok", "wrong", "skipped")
# RAW says how device time was taken, TIDY that it is device time.
DEVICE_TIMERS = ("graph", "events")
RAW_TIMERS = (*DEVICE_TIMERS, "call", "host", "none")
TIDY_TIMERS = ("device", "call", "host", "none")
POINT = ["dtype", "rows", "cols"]

_text: dict[str, Any] = {"coerce": True, "nullable": False}
_real: dict[str, Any] = {"coerce": True, "nullable": True}
_count = pa.Column(int, pa.Check.ge(0), coerce=True)


def _one_of(values: tuple[str, ...]) -> pa.Column:
    return pa.Column(str, pa.Check.isin(values), **_text)


RAW = pa.DataFrameSchema(
    {
        "schema_version": pa.Column(int, pa.Check.eq(SCHEMA_VERSION), coerce=True),
        "sweep": pa.Column(str, **_text),
        "variant": pa.Column(str, **_text),
        "framework": _one_of(("torch", "triton", "cuda", "peers")),
        "dtype": _one_of(DTYPES),
        "rows": pa.Column(int, pa.Check.ge(1), coerce=True),
        "cols": pa.Column(int, pa.Check.ge(1), coerce=True),
        "block": _count,
        "order": _count,
        "sample": _count,
        "time_ns": pa.Column(float, pa.Check.gt(0), **_real),
        "timer": _one_of(RAW_TIMERS),
        "l2": _one_of(("cold", "warm", "none")),
        "status": _one_of(STATUSES),
        "reason": pa.Column(str, coerce=True),
        "max_rel_err": pa.Column(float, **_real),
        "sm_clock_mhz": pa.Column(float, **_real),
        "mem_clock_mhz": pa.Column(float, **_real),
        "power_w": pa.Column(float, **_real),
        "temp_c": pa.Column(float, **_real),
        "throttle_mask": pa.Column(float, **_real),
        "other_processes": pa.Column(float, **_real),
        "kernel_sha256": pa.Column(str, pa.Check.str_matches(r"^[0-9a-f]{64}$"), **_text),
        "code_commit": pa.Column(str, **_text),
        "env_sha256": pa.Column(str, pa.Check.str_matches(r"^[0-9a-f]{64}$"), **_text),
        "t_utc": pa.Column(str, **_text),
    },
    strict=True,
    ordered=True,
)

TIDY = pa.DataFrameSchema(
    {
        "sweep": pa.Column(str, **_text),
        "variant": pa.Column(str, **_text),
        "framework": pa.Column(str, **_text),
        "timer": _one_of(TIDY_TIMERS),
        "dtype": _one_of(DTYPES),
        "rows": pa.Column(int, coerce=True),
        "cols": pa.Column(int, coerce=True),
        "status": _one_of(STATUSES),
        "reason": pa.Column(str, coerce=True),
        "max_rel_err": pa.Column(float, **_real),
        "median_us": pa.Column(float, **_real),
        "ci_low_us": pa.Column(float, **_real),
        "ci_high_us": pa.Column(float, **_real),
        "p20_us": pa.Column(float, **_real),
        "p80_us": pa.Column(float, **_real),
        "useful_gbps": pa.Column(float, **_real),
        "moved_gbps": pa.Column(float, **_real),
        "fraction_of_copy": pa.Column(float, **_real),
        "fraction_low": pa.Column(float, **_real),
        "fraction_high": pa.Column(float, **_real),
        "speedup_vs_torch": pa.Column(float, **_real),
        "speedup_low": pa.Column(float, **_real),
        "speedup_high": pa.Column(float, **_real),
        "n_blocks": _count,
        "n_samples": _count,
        "throttled_share": pa.Column(float, **_real),
        "contended_share": pa.Column(float, **_real),
        "stale": pa.Column(bool, coerce=True),
    },
    strict=True,
    ordered=True,
)


def useful_bytes(rows: int, cols: int, dtype: str) -> int:
    """Bytes a softmax must move: the input read once, the output written once."""
    return 2 * rows * cols * ELEMENT_BYTES[dtype]


def gbps(n_bytes: float, time_us: float) -> float:
    """Bandwidth in GB/s (1e9 bytes a second); the only place that computes it."""
    return n_bytes / time_us * 1e-3


def read_raw(path: Path) -> pd.DataFrame:
    """A RAW table; raises SchemaError, OSError, EOFError or ValueError where it is none."""
    return RAW.validate(pd.read_csv(path).fillna({"reason": ""}))


def write_raw(table: pd.DataFrame, path: Path) -> None:
    """All of the table or nothing, and the same bytes for the same rows."""
    part = path.with_name(f".{path.name}")
    table.to_csv(part, index=False, compression={"method": "gzip", "mtime": 0})
    part.rename(path)
