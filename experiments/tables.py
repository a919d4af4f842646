"""Columns of the tables that stages hand to one another (pandera schemas).

RAW    one row a sample; results/<source>/raw/<sweep>.csv.gz
TIDY   one row a (variant, timer, point); results/<source>/tidy/<sweep>.csv
ACCURACY  one row a (variant, dtype, kind of input, shape); results/<source>/accuracy.csv
PROFILE   one row a (variant, point, layout), all launches together; results/<source>/profile.csv
SANITIZER one row a (tool, regime of the frontier or operator); results/<source>/sanitizer.csv
LAYOUTS   one row a (variant, layout, point); results/<source>/layouts.csv
LAUNCHED  one row a (kernel_sha256, variant, layout, point); experiments/archive/<gpu>/launched.csv:
          its schema is in experiments/launched.py, which earlier commits run as it is

Times are nanoseconds in RAW and microseconds in TIDY; bandwidths are GB/s (1e9 bytes).
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.errors
import pandera.pandas as pa

from experiments.sweeps.sweep import AGAIN
from kernels.registry import BY_NAME, DTYPES, ELEMENT_BYTES, FRAMEWORKS

SCHEMA_VERSION = 2
STATUSES = ("ok", "wrong", "skipped")
# RAW says how device time was taken, TIDY that it is device time.
DEVICE_TIMERS = ("graph", "events")
RAW_TIMERS = (*DEVICE_TIMERS, "call", "host", "none")
TIDY_TIMERS = ("device", "call", "host", "none")
POINT = ["dtype", "rows", "cols"]
PLACE = [*POINT, "layout"]
TEXTS = ("reason", "tuned", "stall")  # which may be empty
INDEX_BYTES = 8

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
        "framework": _one_of(FRAMEWORKS),
        "dtype": _one_of(DTYPES),
        "rows": pa.Column(int, pa.Check.ge(1), coerce=True),
        "cols": pa.Column(int, pa.Check.ge(1), coerce=True),
        "block": _count,
        "order": _count,
        "sample": _count,
        "time_ns": pa.Column(float, pa.Check.gt(0), **_real),
        "timer": _one_of(RAW_TIMERS),
        "l2": _one_of(("cold", "none")),
        "status": _one_of(STATUSES),
        "reason": pa.Column(str, coerce=True),
        "max_rel_err": pa.Column(float, **_real),
        "tuned": pa.Column(str, coerce=True),
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
    checks=pa.Check(
        lambda table: (table["status"] == "ok") == table["time_ns"].notna(),
        name="a time where the status is ok, and only there",
    ),
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
        "tuned": pa.Column(str, coerce=True),
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

ACCURACY = pa.DataFrameSchema(
    {
        "variant": pa.Column(str, **_text),
        "dtype": _one_of(DTYPES),
        "input": pa.Column(str, **_text),
        "rows": pa.Column(int, coerce=True),
        "cols": pa.Column(int, coerce=True),
        "status": _one_of(STATUSES),
        "reason": pa.Column(str, coerce=True),
        "max_ulps": pa.Column(float, pa.Check.ge(0), **_real),
        "mean_ulps": pa.Column(float, pa.Check.ge(0), **_real),
        "row_sum_err": pa.Column(float, pa.Check.ge(0), **_real),
        "kernel_sha256": pa.Column(str, pa.Check.str_matches(r"^[0-9a-f]{64}$"), **_text),
    },
    strict=True,
    ordered=True,
)

FIRST_CALLS = pa.DataFrameSchema(
    {
        "variant": pa.Column(str, **_text),
        "dtype": _one_of(DTYPES),
        "rows": pa.Column(int, coerce=True),
        "cols": pa.Column(int, coerce=True),
        "status": _one_of(STATUSES),
        "reason": pa.Column(str, coerce=True),
        "first_ms": pa.Column(float, pa.Check.gt(0), **_real),
        "again_ms": pa.Column(float, pa.Check.gt(0), **_real),
        "kernel_sha256": pa.Column(str, pa.Check.str_matches(r"^[0-9a-f]{64}$"), **_text),
        "code_commit": pa.Column(str, **_text),
    },
    strict=True,
    ordered=True,
)

# Of a call that ncu watches.  Of several launches: sums of launches, bytes and time; percentages
# weighted with time; waves, what most warps wait for, registers, block and grid of the longest.
# The time is that of a watched kernel, not a measurement of it.
COUNTED: dict[str, pa.Column] = {
    "launches": _count,
    "ideal_bytes": pa.Column(int, pa.Check.gt(0), coerce=True),
    "dram_read_bytes": pa.Column(float, pa.Check.ge(0), **_real),
    "dram_write_bytes": pa.Column(float, pa.Check.ge(0), **_real),
    "duration_us": pa.Column(float, pa.Check.gt(0), **_real),
    "dram_throughput_pct": pa.Column(float, pa.Check.in_range(0, 101), **_real),
    "occupancy_pct": pa.Column(float, pa.Check.in_range(0, 101), **_real),
    # A block of few rows is 0.00 waves: ncu gives two digits.
    "waves": pa.Column(float, pa.Check.ge(0), **_real),
    "issue_pct": pa.Column(float, pa.Check.in_range(0, 101), **_real),
    "stall": pa.Column(str, coerce=True),
    "stall_pct": pa.Column(float, pa.Check.in_range(0, 101), **_real),
    "registers": pa.Column("Int64", pa.Check.gt(0), **_real),
    "block_size": pa.Column("Int64", pa.Check.gt(0), **_real),
    "grid_size": pa.Column("Int64", pa.Check.gt(0), **_real),
    "profiler": pa.Column(str, **_text),
    "kernel_sha256": pa.Column(str, pa.Check.str_matches(r"^[0-9a-f]{64}$"), **_text),
    "code_commit": pa.Column(str, **_text),
}
BYTES_WHERE_OK = pa.Check(
    lambda table: (table["status"] == "ok") == table["dram_read_bytes"].notna(),
    name="bytes where the status is ok, and only there",
)

PROFILE = pa.DataFrameSchema(
    {
        "variant": pa.Column(str, **_text),
        "framework": _one_of(FRAMEWORKS),
        "dtype": _one_of(DTYPES),
        "rows": pa.Column(int, pa.Check.ge(1), coerce=True),
        "cols": pa.Column(int, pa.Check.ge(1), coerce=True),
        "layout": pa.Column(str, **_text),
        "status": _one_of(STATUSES),
        "reason": pa.Column(str, coerce=True),
        **COUNTED,
    },
    checks=BYTES_WHERE_OK,
    unique=["variant", *PLACE],
    strict=True,
    ordered=True,
)

# A planted fault is a regime too, and ok where it was found.
SANITIZER = pa.DataFrameSchema(
    {
        "variant": pa.Column(str, **_text),
        "tool": pa.Column(str, **_text),
        "regime": pa.Column(str, **_text),
        "launches": pa.Column(int, pa.Check.ge(1), coerce=True),
        "least_cols": pa.Column(int, pa.Check.ge(1), coerce=True),
        "most_cols": pa.Column(int, pa.Check.ge(1), coerce=True),
        "status": _one_of(STATUSES),
        "reason": pa.Column(str, coerce=True),
        "errors": pa.Column("Int64", pa.Check.ge(0), **_real),
        "warnings": pa.Column("Int64", pa.Check.ge(0), **_real),
        "seconds": pa.Column(float, pa.Check.gt(0), coerce=True),
        "sanitizer": pa.Column(str, **_text),
        "kernel_sha256": pa.Column(str, pa.Check.str_matches(r"^[0-9a-f]{64}$"), **_text),
        "code_commit": pa.Column(str, **_text),
    },
    unique=["tool", "regime"],
    strict=True,
    ordered=True,
)

LAYOUTS = pa.DataFrameSchema(
    {
        "variant": pa.Column(str, **_text),
        "layout": pa.Column(str, **_text),
        "dtype": _one_of(DTYPES),
        "rows": pa.Column(int, pa.Check.ge(1), coerce=True),
        "cols": pa.Column(int, pa.Check.ge(1), coerce=True),
        "status": _one_of(STATUSES),
        "reason": pa.Column(str, coerce=True),
        "median_us": pa.Column(float, pa.Check.gt(0), **_real),
        "copy_us": pa.Column(float, pa.Check.gt(0), **_real),
        "fraction_of_copy": pa.Column(float, pa.Check.gt(0), **_real),
        "fraction_low": pa.Column(float, pa.Check.gt(0), **_real),
        "fraction_high": pa.Column(float, pa.Check.gt(0), **_real),
        "n_samples": _count,
        "kernel_sha256": pa.Column(str, pa.Check.str_matches(r"^[0-9a-f]{64}$"), **_text),
        "code_commit": pa.Column(str, **_text),
    },
    unique=["layout", "dtype", "cols"],
    strict=True,
    ordered=True,
)


def useful_bytes(rows: int, cols: int, dtype: str, variant: str = "") -> int:
    """Bytes that ``variant`` must move: the input read once, its output written once.

    That is as large as the input, unless the variant gives the k largest of a row alone.
    """
    once = rows * cols * ELEMENT_BYTES[dtype]
    return once + (top_bytes(rows, dtype, variant) or once)


def top_bytes(rows: int, dtype: str, variant: str) -> int:
    """Bytes of the k largest of each row and of their columns; 0 where ``variant`` gives all."""
    known = BY_NAME.get(variant.removesuffix(AGAIN))
    return rows * known.k * (ELEMENT_BYTES[dtype] + INDEX_BYTES) if known else 0


def gbps(n_bytes: float, time_us: float) -> float:
    """Bandwidth in GB/s (1e9 bytes a second); the only place that computes it."""
    return n_bytes / time_us * 1e-3


class BadTable(ValueError):
    """A file or a frame is not the table that it should be; the message says why.

    Its subclasses name the file.
    """


class BadFile(BadTable):
    """A file is not the table that it should be."""


@contextmanager
def reading(path: Path, what: str = "a table of this project") -> Iterator[None]:
    """What is wrong with ``path``, which should be ``what``, is raised as one that names it."""
    try:
        yield
    except (BadTable, OSError, ValueError) as error:
        if isinstance(error, BadTable) and type(error) is not BadTable:
            raise  # it names the file, another one that is looked at beside this
        raise BadFile(f"{path} is not {what}: {error}") from error


def validated(schema: pa.DataFrameSchema, table: pd.DataFrame) -> pd.DataFrame:
    """``table`` in the types of ``schema``; raises BadTable with the first violation."""
    if odd := sorted(set(table.columns) ^ set(schema.columns)):
        raise BadTable(f"missing or unknown columns: {', '.join(map(str, odd))}")
    if list(table.columns) != list(schema.columns):
        raise BadTable("its columns are in another order")
    if table.empty:
        raise BadTable("it holds no rows")
    try:
        return schema.validate(table, lazy=True)
    except pandera.errors.SchemaErrors as errors:
        case = errors.failure_cases.iloc[0]
        found = f"column '{case['column']}' fails {case['check']}, with {case['failure_case']}"
        raise BadTable(found) from errors


def read_csv(path: Path) -> pd.DataFrame:
    """Any of the project's tables, with '' where a text is empty."""
    return pd.read_csv(path, dtype=dict.fromkeys(TEXTS, "str")).fillna(dict.fromkeys(TEXTS, ""))


def read_judged(path: Path, schema: pa.DataFrameSchema, what: str) -> pd.DataFrame:
    """The table of ``schema`` in ``path``, which says ``what`` came of it; any text may be empty.

    Raises BadTable where it is none.
    """
    numbers = {name: [""] for name, column in schema.columns.items() if column.nullable}
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=numbers)
    except (OSError, ValueError) as error:
        raise BadTable(f"{path}: {str(error).strip().splitlines()[0]}") from error
    try:
        return validated(schema, table)
    except BadTable as error:
        raise BadTable(f"{path} holds no {what}: {error}") from error


def read_raw(path: Path) -> pd.DataFrame:
    """The RAW table in ``path``; raises BadTable where it is none."""
    try:
        table = read_csv(path)
    except (OSError, EOFError, ValueError, zlib.error) as error:  # pandas raises ValueErrors
        raise BadTable(str(error).strip().splitlines()[0]) from error
    return validated(RAW, table)


def write_raw(table: pd.DataFrame, path: Path) -> None:
    """All of the table or nothing, and the same bytes for the same rows."""
    part = path.with_name(f".{path.name}")
    table.to_csv(part, index=False, compression={"method": "gzip", "mtime": 0})
    part.rename(path)
