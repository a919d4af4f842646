"""Columns of the operators' tables (pandera schemas), one CSV an operator.

RAW    one row a sample; results/<source>/family/raw/<operator>.csv.gz
TIDY   one row a (implementation, case); results/<source>/family/tidy/<operator>.csv
ACCURACY, COUNTS  of all operators together; results/<source>/family/accuracy.csv, counts.csv

Times are nanoseconds in RAW and microseconds in TIDY; bandwidths are GB/s (1e9 bytes) of what an
ideal implementation moves, and TFLOP/s count 1e12 operations.
"""

import zlib
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa

from experiments.tables import (
    BYTES_WHERE_OK,
    COUNTED,
    STATUSES,
    BadTable,
    read_csv,
    validated,
)
from kernels.registry import DTYPES

SCHEMA_VERSION = 1
TIMERS = ("graph", "events", "call", "host", "none")
CASE = ["asked", "dtype", "shape", "rows", "cols"]
CEILINGS = ("copy", "add", "")

_text: dict[str, Any] = {"coerce": True, "nullable": False}
_real: dict[str, Any] = {"coerce": True, "nullable": True}
_count = pa.Column(int, pa.Check.ge(0), coerce=True)
_size = pa.Column(int, pa.Check.ge(1), coerce=True)
_above_0 = pa.Column(float, pa.Check.gt(0), **_real)
_sha256 = pa.Column(str, pa.Check.str_matches(r"^[0-9a-f]{64}$"), **_text)


def _one_of(values: tuple[str, ...]) -> pa.Column:
    return pa.Column(str, pa.Check.isin(values), **_text)


_CASE = {
    "asked": pa.Column(str, **_text),
    "dtype": _one_of(DTYPES),
    "shape": pa.Column(str, pa.Check.str_matches(r"^\d+(x\d+)*$"), **_text),
    "rows": _size,
    "cols": _size,
}

RAW = pa.DataFrameSchema(
    {
        "schema_version": pa.Column(int, pa.Check.eq(SCHEMA_VERSION), coerce=True),
        "operator": pa.Column(str, **_text),
        "implementation": pa.Column(str, **_text),
        **_CASE,
        "ideal_bytes": _size,
        "flops": _above_0,
        "block": _count,
        "order": _count,
        "sample": _count,
        "time_ns": _above_0,
        "timer": _one_of(TIMERS),
        "l2": _one_of(("cold", "none")),
        "status": _one_of(STATUSES),
        "reason": pa.Column(str, coerce=True),
        "error": pa.Column(float, pa.Check.ge(0), **_real),
        "tolerance": pa.Column(float, pa.Check.ge(0), **_real),
        "extra_bytes": pa.Column(float, pa.Check.ge(0), **_real),
        "sm_clock_mhz": pa.Column(float, **_real),
        "mem_clock_mhz": pa.Column(float, **_real),
        "power_w": pa.Column(float, **_real),
        "temp_c": pa.Column(float, **_real),
        "throttle_mask": pa.Column(float, **_real),
        "other_processes": pa.Column(float, **_real),
        "kernel_sha256": _sha256,
        "code_commit": pa.Column(str, **_text),
        "env_sha256": _sha256,
        "t_utc": pa.Column(str, **_text),
    },
    checks=pa.Check(
        lambda table: (table["status"] == "ok") == table["time_ns"].notna(),
        name="a time where the status is ok, and only there",
    ),
    strict=True,
    ordered=True,
)

TIDY = pa.DataFrameSchema(
    {
        "operator": pa.Column(str, **_text),
        "implementation": pa.Column(str, **_text),
        **_CASE,
        "timer": _one_of(TIMERS),
        "status": _one_of(STATUSES),
        "reason": pa.Column(str, coerce=True),
        "error": pa.Column(float, pa.Check.ge(0), **_real),
        "tolerance": pa.Column(float, pa.Check.ge(0), **_real),
        "ceiling": pa.Column(str, pa.Check.isin(CEILINGS), coerce=True),
        "median_us": _above_0,
        "ci_low_us": _above_0,
        "ci_high_us": _above_0,
        "gbps": _above_0,
        "tflops": _above_0,
        "tflops_low": _above_0,
        "tflops_high": _above_0,
        "fraction_of_ceiling": _above_0,
        "fraction_of_ceiling_low": _above_0,
        "fraction_of_ceiling_high": _above_0,
        "fraction_of_plain": _above_0,
        "fraction_of_plain_low": _above_0,
        "fraction_of_plain_high": _above_0,
        "speedup_vs_torch": _above_0,
        "speedup_vs_torch_low": _above_0,
        "speedup_vs_torch_high": _above_0,
        # By how much ours is faster than this one.
        "speedup_of_ours": _above_0,
        "speedup_of_ours_low": _above_0,
        "speedup_of_ours_high": _above_0,
        "extra_bytes": pa.Column(float, pa.Check.ge(0), **_real),
        "extra_share": pa.Column(float, pa.Check.ge(0), **_real),
        "n_blocks": _count,
        "n_samples": _count,
        "throttled_share": pa.Column(float, **_real),
        "contended_share": pa.Column(float, **_real),
        "kernel_sha256": _sha256,
        "stale": pa.Column(bool, coerce=True),
    },
    unique=["implementation", *CASE],
    strict=True,
    ordered=True,
)

# One row a (implementation, case, kind of input): results/<source>/family/accuracy.csv.
ACCURACY = pa.DataFrameSchema(
    {
        "operator": pa.Column(str, **_text),
        "implementation": pa.Column(str, **_text),
        **_CASE,
        "input": pa.Column(str, **_text),
        "status": _one_of(STATUSES),
        "reason": pa.Column(str, coerce=True),
        "max_ulps": pa.Column(float, pa.Check.ge(0), **_real),
        "mean_ulps": pa.Column(float, pa.Check.ge(0), **_real),
        "kernel_sha256": _sha256,
        "code_commit": pa.Column(str, **_text),
    },
    unique=["operator", "implementation", *CASE, "input"],
    strict=True,
    ordered=True,
)

# One row a (implementation, case), all launches of a call together: family/counts.csv beside it.
# The fingerprint is the operator's, as in the others, also where torch is counted.
COUNTS = pa.DataFrameSchema(
    {
        "operator": pa.Column(str, **_text),
        "implementation": pa.Column(str, **_text),
        **_CASE,
        "status": _one_of(STATUSES),
        "reason": pa.Column(str, coerce=True),
        **COUNTED,
    },
    checks=BYTES_WHERE_OK,
    unique=["operator", "implementation", *CASE],
    strict=True,
    ordered=True,
)


def read_raw(path: Path) -> pd.DataFrame:
    """The RAW table in ``path``; raises BadTable where it is none."""
    return _read(path, RAW)


def read_tidy(path: Path) -> pd.DataFrame:
    """The TIDY table in ``path``; raises BadTable where it is none."""
    return _read(path, TIDY)


def _read(path: Path, schema: pa.DataFrameSchema) -> pd.DataFrame:
    try:
        table = read_csv(path)
    except (OSError, EOFError, ValueError, zlib.error) as error:  # pandas raises ValueErrors
        raise BadTable(str(error).strip().splitlines()[0]) from error
    if "ceiling" in table:
        table = table.fillna({"ceiling": ""})
    return validated(schema, table)
