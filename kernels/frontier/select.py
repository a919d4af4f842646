"""Which shape serves a row: the fastest that was measured on this GPU, or rules where none was.

``python -m experiments.tune`` measures, and writes tables/<gpu>.json.
"""

import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernels.frontier.plans import (
    HOPPER_REGIMES,
    HOPPERS,
    VECTOR_BYTES,
    Shape,
    deal,
    vectors_from_line,
)
from kernels.registry import ELEMENT_BYTES

TABLES = Path(__file__).parent / "tables"
# Serves GPUs of HOPPERS that have no table of their own.
DEFAULT = "nvidia-h200"
BLOCKS = ((256, 128), (512, 256), (1024, 512), (8192, 1024))  # (most vectors, threads)
STREAM = Shape("stream", (1024,))


@dataclass(frozen=True)
class Request:
    """What is asked for; ``arch`` is 90 for sm_90."""

    dtype: str
    rows: int
    cols: int
    edges: bool
    contiguous: bool
    lines: bool
    arch: int
    multiprocessors: int
    invariant: bool = False

    @property
    def size(self) -> int:
        return ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True)
class Entry:
    """The fastest shape for rows of ``cols``, and how near to copy it came."""

    cols: int
    shape: Shape
    fraction_of_copy: float


Table = Mapping[tuple[str, bool], tuple[Entry, ...]]  # by dtype and edges, in order of cols


@cache
def table(gpu: str) -> Table:
    """The measured table of ``gpu``, or that of DEFAULT where there is none."""
    path = TABLES / f"{gpu}.json"
    told = json.loads((path if path.exists() else TABLES / f"{DEFAULT}.json").read_text())
    entries: dict[tuple[str, bool], list[Entry]] = {}
    for row in told["entries"]:
        shape = Shape(row["regime"], tuple(row["sizes"]), row["raw"])
        entry = Entry(row["cols"], shape, row["fraction_of_copy"])
        entries.setdefault((row["dtype"], row["edges"]), []).append(entry)
    return {key: tuple(sorted(some, key=lambda e: e.cols)) for key, some in entries.items()}


def select(request: Request, gpu: str) -> Shape:
    """The shape for ``request`` on ``gpu`` (a slug)."""
    if request.arch in HOPPERS:
        if few := _for_few_rows(request):
            return few
        entries = table(gpu)[request.dtype, request.edges]
        index = bisect_left([e.cols for e in entries], request.cols)
        # At the next width that was measured; beyond the last, only what no thread has to hold.
        shape = entries[min(index, len(entries) - 1)].shape
        if (index < len(entries) or shape.regime == "chunks") and possible(shape, request):
            return shape
    return _by_rule(request)


def possible(shape: Shape, request: Request) -> bool:
    """Whether ``shape`` can serve ``request``."""
    if shape.regime in HOPPER_REGIMES and request.arch not in HOPPERS:
        return False
    if shape.why_not(request.cols, request.size, request.edges, request.contiguous):
        return False
    if shape.regime == "chunks":
        dealt = deal(shape, request.cols, request.size, request.lines)
        room = request.multiprocessors * (shape.sizes[1] // shape.sizes[4])
        return dealt.tickets <= room
    return True


def _for_few_rows(request: Request) -> Shape | None:
    """The largest cluster that leaves every row its multiprocessors, for rows that are too few.

    A cluster of 16 finds room seven times on an H200, of 8 fifteen times (shared/KERNELS.md).
    """
    vectors = request.cols * request.size // VECTOR_BYTES
    for blocks, room in ((16, 7), (8, 15), (4, 30)):
        share = vectors // blocks
        fits = request.rows <= room and request.rows * blocks <= request.multiprocessors
        if fits and 64 <= share <= 8 * 1024:
            threads = next(t for t in (128, 256, 512, 1024) if t == 1024 or share <= 4 * t)
            return Shape("cluster", (threads, blocks), raw=request.size == 2)
    return None


def _by_rule(request: Request) -> Shape:
    """A shape that serves any row on any GPU."""
    vectors = vectors_from_line(request.cols, request.size, request.edges)
    least = 16 if request.edges else 1
    if vectors <= 128:
        lanes = next((n for n in (1, 2, 4, 8, 16) if n >= max(least, vectors / 2)), 32)
        return Shape("warp", (lanes,))
    for most, threads in BLOCKS:
        if vectors <= most:
            return Shape("block", (threads, 1), raw=request.size == 2)
    return STREAM
