"""Hand-made RAW rows."""

from functools import cache
from typing import Any

import pandas as pd

from experiments.sweeps.sweep import AGAIN
from experiments.tables import RAW, SCHEMA_VERSION, validated
from kernels.fingerprint import variant_sha256
from kernels.registry import variant

Row = dict[str, Any]


@cache
def fingerprint(name: str) -> str:
    return variant_sha256(variant(name))


def row(name: str, time_ns: float = 1000.0, **changes: Any) -> Row:
    """One good sample of variant ``name`` at float32 (4, 1000), with ``changes``."""
    base = name.removesuffix(AGAIN)
    facts = {
        "schema_version": SCHEMA_VERSION,
        "sweep": "smoke",
        "variant": name,
        "framework": variant(base).framework,
        "dtype": "float32",
        "rows": 4,
        "cols": 1000,
        "block": 0,
        "order": 0,
        "sample": 0,
        "time_ns": time_ns,
        "timer": "graph",
        "l2": "cold",
        "status": "ok",
        "reason": "",
        "max_rel_err": 1e-7,
        "tuned": "",
        "sm_clock_mhz": 1980.0,
        "mem_clock_mhz": 2619.0,
        "power_w": 300.0,
        "temp_c": 40.0,
        "throttle_mask": 0.0,
        "other_processes": 0.0,
        "kernel_sha256": fingerprint(base),
        "code_commit": "a" * 40,
        "env_sha256": "b" * 64,
        "t_utc": "2026-01-01T00:00:00.000000Z",
    }
    assert set(changes) <= set(facts)
    return {**facts, **changes}


def blocks(name: str, *times_ns: float, **changes: Any) -> list[Row]:
    """One sample a block, block 0 first."""
    return [row(name, ns, block=i, **changes) for i, ns in enumerate(times_ns)]


def stopped(name: str, status: str, reason: str, **changes: Any) -> Row:
    """A point that was not timed."""
    facts = {"timer": "none", "l2": "none", "status": status, "reason": reason, **changes}
    return row(name, float("nan"), **facts)


def raw(*rows: Row) -> pd.DataFrame:
    return validated(RAW, pd.DataFrame(list(rows)))
