"""What ncu counts where, and what it counted (profile.csv), beside today's code."""

from pathlib import Path

import pandas as pd
import pandera.pandas as pa

from experiments.layout import CONTIGUOUS, Place, points
from experiments.stale import gpu_beside, stale
from experiments.sweeps import SWEEPS, Point
from experiments.tables import POINT, PROFILE, read_csv, validated
from kernels.registry import BY_NAME

# Equal bytes at each, timed by the sweep of all widths: short rows, rows that every kernel holds,
# rows that some do, rows that only spills or several trips can do.  The outputs are several times
# the L2.
COLS = (1024, 8192, 32_768, 131_072)
# S1's own comparison under ncu.
S1 = Point("float16", 8192, 32_000)
_POINTS = tuple(SWEEPS["frontier"].points("full"))
POINTS = (*(p for p in _POINTS if p.dtype == "float32" and p.cols in COLS), S1)
# Those that give the k largest move no 2MN.
NAMES = tuple(v.name for v in BY_NAME.values() if not v.k)
# Where the frontier is to move 2MN, beside those that it is compared with.
FRONTIER_COLS = (1024, 32_768, 131_072, 2**20)
FRONTIER_POINTS = tuple(
    p for p in _POINTS if p.dtype in ("float32", "bfloat16") and p.cols in FRONTIER_COLS
)
FRONTIER_NAMES = SWEEPS["frontier"].variants
# Where a goal of the project's own kernels is missed, or nearly: what is the limit there?  Few
# rows, batches of Llama 2's vocabulary, and saturated widths at which a peer or copy is ahead, or
# Triton is not twice as fast as its tutorial's form.
# Outputs of few rows stay in the L2: of their bytes only those that are read tell something.
FEW_ROWS = tuple(
    Point(dtype, rows, cols)
    for dtype in ("float32", "bfloat16")
    for cols, some in ((131_072, (1, 8, 32)), (201_088, (32, 64)), (2**20, (1, 4, 8, 16)))
    for rows in some
)
# Beside them, where a lead is open; the goals of few rows ask for nothing that is counted here.
LEAD = tuple(Point(dtype, 8, 201_088) for dtype in ("float32", "bfloat16"))
BATCHES = tuple(
    Point(dtype, rows, 32_000)
    for dtype, some in (("float16", (256, 1024)), ("float32", (32_768,)))
    for rows in some
)
WIDE = (151_936, 201_088, 2**18, 2**19)
SATURATED = {
    "float32": (32, 64, 256, 257, 512, 1000, *WIDE),
    "float16": (32, 64, 128, 256, 512, 1024, 8192, 65_536, 128_256, 131_072, *WIDE, 2**20),
    "bfloat16": (64, 128, 256, 512, 1024, 8192, 65_536, 131_072, *WIDE),
}
NEAR_LIMITS = (*FEW_ROWS, *LEAD, *BATCHES, *(p for p in _POINTS if p.cols in SATURATED[p.dtype]))
# torch.compile is the best peer at some of them.  What an archive counted before has no such rows.
NEAR_LIMITS_NAMES = ("frontier", "triton_frontier", "triton_row", "quack", "torch_compile")
# Where the two regimes serve that none of the above asks for: tiles, which take a row's elements
# one by one, and streams, of rows that nothing holds.  No sweep has those; QuACK would have a
# cluster hold one, and is not asked.  What an archive counted before has neither.
TILED = tuple(p for p in _POINTS if (p.dtype, p.cols) == ("bfloat16", 63))
STREAMED = (Point("float32", 2, 2**26),)
STREAMED_NAMES = ("frontier", "triton_frontier", "torch_compile", "torch_eager")
# Where no goal asks for a copy's speed and less is reached (docs/frontier.md); NARROW has widths of
# tuning's, which no sweep has.
_BELOW = {
    *(("bfloat16", 32), ("float16", 63), ("float16", 127), ("bfloat16", 127)),
    *((dtype, cols) for dtype in SATURATED for cols in (100_003, 2**22)),
}
NARROW = tuple(Point(d, 2**28 // n, n) for d in ("float16", "bfloat16") for n in (65, 129))
UNJUDGED = (*(p for p in _POINTS if (p.dtype, p.cols) in _BELOW), *NARROW)
UNJUDGED_NAMES = ("frontier", "triton_frontier")
# Rows that start off 16 bytes, or have a gap between them: are lines of the memory read twice?
APART = {
    "stride N + 1": (("float16", 1000), ("bfloat16", 1000)),
    "stride N + 8": (("float16", 1000), ("bfloat16", 1000)),
    "one element off": (("bfloat16", 1000),),
    "sliced input": (
        *(("float16", 131_072), ("bfloat16", 131_072)),
        *((dtype, 2**20) for dtype in SATURATED),
    ),
}
PLACED = tuple(
    Place(*p, layout)
    for layout, some in APART.items()
    for p in points()
    if (p.dtype, p.cols) in some
)


def watched() -> dict[Place, tuple[str, ...]]:
    """The variants that are counted, by place: where two of the above meet, those of the first."""
    found: dict[Place, tuple[str, ...]] = {}
    for some, names in (
        (POINTS, NAMES),
        (FRONTIER_POINTS, FRONTIER_NAMES),
        ((*NEAR_LIMITS, *TILED), NEAR_LIMITS_NAMES),
        (STREAMED, STREAMED_NAMES),
        (UNJUDGED, UNJUDGED_NAMES),
    ):
        for point in some:
            found.setdefault(Place(*point), names)
    return found | dict.fromkeys(PLACED, ("frontier",))


def whole(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``table`` for figures and claims: those of POINTS and FRONTIER_POINTS.

    Tensors are contiguous there, of equal bytes, and so large that all is written but a small part.
    """
    asked = table[POINT].apply(tuple, axis=1).isin([*POINTS, *FRONTIER_POINTS])
    return table[asked & (table["layout"] == CONTIGUOUS)]


def read_counts(path: Path) -> pd.DataFrame:
    """The PROFILE table in ``path``, and whether each row is of earlier code: ``stale``.

    Raises BadTable where it is no such table, OSError and ValueError where it is none at all.
    """
    return read_beside(path, PROFILE)


def read_beside(path: Path, schema: pa.DataFrameSchema) -> pd.DataFrame:
    """The same for the table of ``schema`` in ``path``, whose hardware.json lies beside it."""
    table = validated(schema, read_csv(path))
    return table.assign(stale=stale(table, gpu_beside(path)))
