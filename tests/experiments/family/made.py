"""Tables of operators as a GPU would give them: each implementation at each case, by formula."""

from itertools import product
from typing import Any
from zlib import crc32

import pandas as pd

from experiments.family import OPERATORS
from experiments.family.counts import watched
from experiments.family.fingerprint import sha256_of
from experiments.family.operator import BLOCKS, OURS, TORCH, Case, Implementation
from experiments.family.profiler import table
from experiments.family.tables import ACCURACY, RAW, SCHEMA_VERSION
from experiments.family.tidy import tidy
from experiments.grids import ACCURACY_INPUTS
from experiments.tables import validated
from kernels.registry import DTYPES
from tests.experiments.counted import PROFILER, launch

COMMIT = "a" * 40
BYTES_PER_NS = 4000.0
# Shares of the memory's speed; others have one by their names.
SHARES = {"copy_torch": 1.0, "copy_memcpy": 0.98, "add": 1.0, "ours": 0.97, "plain": 0.98}
SKIPPED = "quack"  # as if it were not installed
READING = {
    "sm_clock_mhz": 1980.0, "mem_clock_mhz": 2619.0, "power_w": 300.0, "temp_c": 40.0,
    "throttle_mask": 0.0, "other_processes": 0.0,
}  # fmt: skip


def share(name: str) -> float:
    return SHARES.get(name, 0.2 + crc32(name.encode()) % 50 / 100)


def row(operator: str, each: Implementation, case: Case, block: int, **changes: Any) -> dict:
    """One good sample, with ``changes``."""
    ideal = (each.n_bytes or OPERATORS[operator].n_bytes)(case)
    facts = {
        "schema_version": SCHEMA_VERSION, "operator": operator, "implementation": each.name,
        "asked": case.asked, "dtype": case.dtype, "shape": "x".join(map(str, case.shape)),
        "rows": case.rows, "cols": case.cols, "ideal_bytes": ideal,
        "flops": OPERATORS[operator].flops(case), "block": block, "order": 0, "sample": 0,
        "time_ns": 2000 + ideal / BYTES_PER_NS / share(each.name) * (1 + block / 1000),
        "timer": "graph", "l2": "cold", "status": "ok", "reason": "", "error": 1e-6,
        "tolerance": 1e-2, "extra_bytes": 1024.0, **READING,
        "kernel_sha256": sha256_of(operator), "code_commit": COMMIT, "env_sha256": "b" * 64,
        "t_utc": "2026-01-01T00:00:00.000000Z",
    }  # fmt: skip
    assert set(changes) <= set(facts)
    return {**facts, **changes}


def stopped(status: str, reason: str) -> dict[str, Any]:
    """Changes to a row that was not timed."""
    return {
        "status": status, "reason": reason, "time_ns": float("nan"), "timer": "none", "l2": "none",
        "extra_bytes": float("nan"), **dict.fromkeys(READING, float("nan")),
    }  # fmt: skip


def raw_of(operator: str, mode: str = "full", **changes: Any) -> pd.DataFrame:
    """A RAW table of a whole run, in which one implementation is missing."""
    rows = []
    for case, block in product(OPERATORS[operator].in_mode(mode), range(BLOCKS[mode])):
        for each in OPERATORS[operator].implementations:
            missing = stopped("skipped", "not installed") if each.name == SKIPPED else {}
            rows.append({**row(operator, each, case, block, **missing), **changes})
    return validated(RAW, pd.DataFrame(rows)[list(RAW.columns)])


def tidy_of(operator: str, mode: str = "full", **changes: Any) -> pd.DataFrame:
    """The TIDY table of it."""
    return tidy(raw_of(operator, mode, **changes))


def errors_of(*operators: str) -> pd.DataFrame:
    """An ACCURACY table of them: a unit in ours, two in torch's."""
    rows = []
    for name, dtype in product(operators, DTYPES):
        judged = OPERATORS[name].accuracy
        assert judged is not None
        kinds = [kind for kind in ACCURACY_INPUTS if kind not in judged.but]
        for case, kind, each in product(judged.cases, kinds, (OURS, TORCH)):
            rows.append({
                "operator": name, "implementation": each, "asked": case.asked, "dtype": dtype,
                "shape": "x".join(map(str, case.shape)), "rows": case.rows, "cols": case.cols,
                "input": kind, "status": "ok", "reason": "", "max_ulps": 1.0 + (each == TORCH),
                "mean_ulps": 0.25, "kernel_sha256": sha256_of(name), "code_commit": COMMIT,
            })  # fmt: skip
    return validated(ACCURACY, pd.DataFrame(rows))


def counts_of(**changes: Any) -> pd.DataFrame:
    """A COUNTS table: ours moves what is ideal in one launch, torch's twice that in two."""
    rows, seen = [], {}
    for call in watched():
        rows.append({**call._asdict(), "status": "ok", "reason": ""})
        half = OPERATORS[call.operator].n_bytes(call.case) / 2
        one = launch(dram_read_bytes=half, dram_write_bytes=half, duration_us=half / 2e6, wait=1.0)
        seen[call] = [one] * (1 if call.implementation == OURS else 2)
    return table(pd.DataFrame(rows), seen, PROFILER, COMMIT).assign(**changes)
