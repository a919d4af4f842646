"""What a sweep is: axes, variants, timers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kernels.registry import BY_NAME, DTYPES, ELEMENT_BYTES, variant

# Blocks (fresh processes) a sweep in each mode.
MODES = {"smoke": 2, "quick": 2, "full": 5}
AGAIN = "/again"


class Point(NamedTuple):
    """One shape at one dtype."""

    dtype: str
    rows: int
    cols: int


@dataclass(frozen=True)
class Fill:
    """As many rows as give a tensor of about ``tensor_bytes``."""

    tensor_bytes: int


COPIES = tuple(v.name for v in BY_NAME.values() if v.ceiling)
TORCH = ("torch_eager", "torch_naive", "torch_compile")
TRITON = tuple(v.name for v in BY_NAME.values() if v.framework == "triton")
# What triton_frontier chooses from: measured by experiments.tune_triton, and here as its choice.
CHOSEN_FROM = ("triton_held", "triton_grid")
TOPK = tuple(v.name for v in BY_NAME.values() if v.k)
PEERS = tuple(v.name for v in BY_NAME.values() if v.framework == "peers")
# What the scaling sweeps compare: torch, Triton, three steps of S4, CUDA kernels that belong to no
# publication's ladder, the frontier and peers.
S4_STEPS = ("cuda_thread_row", "cuda_block_tree", "cuda_float4")
OTHER_CUDA = tuple(
    v.name for v in BY_NAME.values()
    if v.framework == "cuda" and not v.k and v.publication not in ("S4", "S5")
)  # fmt: skip
SCALED = (
    *COPIES, *TORCH, *(name for name in TRITON if name not in CHOSEN_FROM), *S4_STEPS, *OTHER_CUDA,
    "frontier", *PEERS,
)  # fmt: skip
# The steps of S4 and of S5, in the order of publication.
LADDER, WORKLOG = (
    tuple(v.name for v in BY_NAME.values() if v.framework == "cuda" and v.publication == source)
    for source in ("S4", "S5")
)
# S5's kernels as published, and the form of each with exact functions.
EXACT = {name.removesuffix("_exact"): name for name in WORKLOG if name.endswith("_exact")}


def powers(base: int, first: int, last: int) -> tuple[int, ...]:
    """base^first ... base^last, both ends included."""
    return tuple(base**k for k in range(first, last + 1))


@dataclass(frozen=True)
class Sweep:
    """One question: the points where ``rows`` x ``cols`` x ``dtypes`` meet, for ``variants``.

    ``shapes`` are (rows, cols) for a question that is no grid, in place of both axes.
    ``again`` names the variant that each block times twice: the two differ by noise alone.
    The ``quick_`` axes thin the question out for a reviewer's five minutes.
    """

    dtypes: tuple[str, ...]
    variants: tuple[str, ...]
    rows: tuple[int, ...] | Fill = ()
    cols: tuple[int, ...] = ()
    shapes: tuple[tuple[int, int], ...] = ()
    timers: tuple[str, ...] = ("graph",)
    again: str = "torch_eager"
    quick_rows: tuple[int, ...] | None = None
    quick_cols: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in self.variants:
            variant(name)
        if unknown := set(self.dtypes) - set(DTYPES):
            raise ValueError(f"unknown dtype {sorted(unknown)}; known: {', '.join(DTYPES)}")

    def points(self, mode: str) -> Iterator[Point]:
        """The points of the sweep in ``mode``, by dtype, then columns, then rows."""
        quick = mode == "quick"
        cols_axis = self.quick_cols if quick and self.quick_cols else self.cols
        rows_axis = self.quick_rows if quick and self.quick_rows else self.rows
        for dtype in self.dtypes:
            yield from (Point(dtype, *shape) for shape in self.shapes)
            for cols in cols_axis:
                if isinstance(rows_axis, Fill):
                    filled = rows_axis.tensor_bytes // (cols * ELEMENT_BYTES[dtype])
                    yield Point(dtype, max(1, filled), cols)
                else:
                    yield from (Point(dtype, rows, cols) for rows in rows_axis)

    def entries(self) -> tuple[str, ...]:
        """The variants to time at each point, the repeated one twice."""
        return (*self.variants, self.again + AGAIN)
