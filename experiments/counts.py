"""What ncu counts at which points, and what it counted (profile.csv), beside today's code."""

from pathlib import Path

import pandas as pd
import pandera.pandas as pa

from experiments.family.fingerprint import sha256_by_name
from experiments.sweeps import SWEEPS, Point
from experiments.tables import PROFILE, read_csv, validated
from kernels.registry import BY_NAME

# Equal bytes at each, timed by vocab_scaling: short rows, rows that every kernel holds, rows that
# some do, rows that only spills or several trips can do.  The outputs are several times the L2.
COLS = (1024, 8192, 32_768, 131_072)
# S1's own comparison under ncu.
S1 = Point("float16", 8192, 32_000)
_POINTS = tuple(SWEEPS["vocab_scaling"].points("full"))
POINTS = (*(p for p in _POINTS if p.dtype == "float32" and p.cols in COLS), S1)
# Those that give the k largest move no 2MN.
NAMES = tuple(v.name for v in BY_NAME.values() if not v.k)
# Where the frontier is to move 2MN, beside those that it is compared with.
FRONTIER_COLS = (1024, 32_768, 131_072, 2**20)
FRONTIER_POINTS = tuple(
    p for p in _POINTS if p.dtype in ("float32", "bfloat16") and p.cols in FRONTIER_COLS
)
FRONTIER_NAMES = SWEEPS["frontier"].variants


def watched() -> dict[Point, tuple[str, ...]]:
    """The variants that are counted, by point."""
    return {point: NAMES if point in POINTS else FRONTIER_NAMES
            for point in (*POINTS, *FRONTIER_POINTS)}  # fmt: skip


def read_counts(path: Path) -> pd.DataFrame:
    """The PROFILE table in ``path``, and whether each row is of earlier code: ``stale``.

    Raises BadTable where it is no such table, OSError and ValueError where it is none at all.
    """
    return read_beside(path, PROFILE)


def read_beside(path: Path, schema: pa.DataFrameSchema) -> pd.DataFrame:
    """The same for the table of ``schema`` in ``path``."""
    table = validated(schema, read_csv(path))
    return table.assign(stale=table["variant"].map(sha256_by_name) != table["kernel_sha256"])
