"""Which shape serves rows: the fastest that was measured on this GPU, or rules where none was.

``python -m experiments.tune`` measures, and writes tables/<gpu>.json.
"""

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from kernels.frontier.operators import MASKS
from kernels.frontier.plans import (
    ALIKE,
    APART,
    EDGES,
    HOPPER_REGIMES,
    HOPPERS,
    LINE,
    UNMASKED_REGIMES,
    USUAL,
    Shape,
    deal,
    least_lanes,
    vectors_from_line,
)
from kernels.registry import ELEMENT_BYTES

TABLES = Path(__file__).parent / "tables"
# Serves GPUs of HOPPERS that have no table of their own.
DEFAULT = "nvidia-h200"
BLOCKS = ((256, 128), (512, 256), (1024, 512), (8192, 1024))  # (most vectors, threads)
STREAM = Shape("stream", (1024,))
# Of a grid by rule: threads of a block, what one holds at most without spills, and blocks of a row.
GRID_THREADS, GRID_HELD, GRID_PARTS = 512, 20, 256
INVARIANT_COLS = 2**23  # exact.cuh
# Vectors of a thread that sums without an order: of elements of so many bytes, raw or not.
HELD_IN_64_REGISTERS = {(4, False): 8, (2, False): 4, (2, True): 9}


@dataclass(frozen=True)
class Request:
    """What is asked for; ``edges`` is NONE, ALIKE or APART, ``arch`` is 90 for sm_90.

    ``operator`` is what is asked for beside the softmax, as operators.Operator.kind names it.
    """

    dtype: str
    rows: int
    cols: int
    edges: int
    contiguous: bool
    lines: bool
    arch: int
    multiprocessors: int
    invariant: bool = False
    operator: str = ""

    @property
    def size(self) -> int:
        return ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True)
class Entry:
    """The fastest shape for rows of ``cols``, and how near to copy it came."""

    cols: int
    shape: Shape
    fraction_of_copy: float


# By dtype, edges and the rows that were measured (MANY: as many as fill the GPU), in order of cols.
Table = Mapping[tuple[str, int, int], tuple[Entry, ...]]
MANY = 2**63
FEW = 133  # rows: up to here a table has few rows, from there on batches
# So few blocks are done sooner early, though what is early starts a block in 1.2 ns, not 0.9: it
# spares the 0.7 us between two kernels (docs/frontier.md).
EARLY_BLOCKS = 2048


def shape_of(entry: Mapping[str, Any]) -> Shape:
    """The shape that ``entry`` of a table in JSON names."""
    more = {name: entry[name] for name in USUAL if name in entry}
    return Shape(entry["regime"], tuple(entry["sizes"]), entry["raw"], **more)


def measured(gpu: str) -> bool:
    """Whether ``gpu`` has a table of its own."""
    return (TABLES / f"{gpu}.json").exists()


@cache
def table(gpu: str, operator: str = "") -> Table:
    """The measured table of ``gpu``, or that of DEFAULT where there is none.

    Of an ``operator`` that was measured, its entries stand before the plain softmax's.
    """
    name = f"{gpu if measured(gpu) else DEFAULT}.json"
    theirs = TABLES / operator / name
    more = _read(theirs) if operator and theirs.exists() else {}
    return {**_read(TABLES / name), **more}


def _read(path: Path) -> Table:
    told = json.loads(path.read_text())
    entries: dict[tuple[str, int, int], list[Entry]] = {}
    for row in told["entries"]:
        shape = shape_of(row)
        key = row["dtype"], EDGES.index(row["edges"]), row["rows"] or MANY
        entries.setdefault(key, []).append(Entry(row["cols"], shape, row["fraction_of_copy"]))
    return {key: tuple(sorted(some, key=lambda e: e.cols)) for key, some in entries.items()}


def select(request: Request, gpu: str) -> Shape:
    """The shape for ``request`` on ``gpu`` (a slug).

    Raises ValueError for an invariant request of more columns than its sums hold.
    """
    if not request.invariant:
        return _measured(request, gpu) or _by_rule(request)
    if request.cols > INVARIANT_COLS:
        raise ValueError(
            f"expected at most {INVARIANT_COLS} columns where invariant=True; got {request.cols}"
        )
    return replace(_roomier(_measured(request, gpu) or _by_rule(request), request), invariant=True)


def _roomier(shape: Shape, request: Request) -> Shape:
    """``shape`` for sums without an order, which take more registers or more warps."""
    sizes = shape.sizes
    match shape.regime:
        case "chunks":  # its summing warps take the place of writing ones
            return replace(shape, sizes=(*sizes[:3], 8, sizes[4], 1, sizes[6]))
        case "block" | "cluster":
            # A multiprocessor has half its threads at least, where they then hold the row without
            # spills; a block of 1024 would have it alone.
            narrow = sizes[0] == 1024 and shape.regime == "block"
            threads = 512 if narrow else sizes[0]
            roomy = replace(shape, sizes=(threads, *sizes[1:-1], max(sizes[-1], 1024 // threads)))
            held = roomy.plan(request.cols, request.size, request.edges).held
            return roomy if held <= HELD_IN_64_REGISTERS[request.size, shape.raw] else shape
    return shape


def _measured(request: Request, gpu: str) -> Shape | None:
    """The shape that was fastest at the next number of rows, and of columns, that was measured."""
    if request.arch not in HOPPERS and not measured(gpu):
        return None
    known, dtype = table(gpu, request.operator), request.dtype
    numbers = sorted({r for d, _, r in known if d == dtype and r >= request.rows})
    for rows, edges in product(numbers, dict.fromkeys((request.edges, ALIKE))):
        # Results that lie otherwise were not measured everywhere.  Those that lie alike stand for
        # them where rows are few, whose number matters more, or narrow.
        stands_in = request.edges == APART and (rows <= FEW or rows == MANY)
        if edges != request.edges and not stands_in:
            continue
        entries = known.get((dtype, edges, rows), ())
        if not _covers(entries, request.cols, all_narrow=rows == MANY and edges != APART):
            continue
        index = bisect_left([e.cols for e in entries], request.cols)
        # Beyond the last width only what no thread has to hold.
        shape = entries[min(index, len(entries) - 1)].shape
        if (index < len(entries) or shape.regime == "chunks") and possible(shape, request):
            if edges != request.edges and rows != MANY and shape.regime == "chunks":
                shape = _dealt_apart(request, gpu) or shape
            return shape if shape.early else _in_time(shape, request)
    return None


def _dealt_apart(request: Request, gpu: str) -> Shape | None:
    """What deals out many such rows: it is launched alike for few, and was measured with slices."""
    shape = _measured(replace(request, rows=MANY), gpu)
    return shape if shape and shape.regime == "chunks" else None


def _in_time(shape: Shape, request: Request) -> Shape:
    """``shape``, whose blocks are late where many rows were measured, or the same early."""
    lanes, threads = shape.sizes
    blocks = request.rows * lanes / (threads * shape.together)
    return replace(shape, early=blocks < EARLY_BLOCKS)


def _covers(entries: Sequence[Entry], cols: int, all_narrow: bool) -> bool:
    """Whether widths near ``cols`` were measured; ``all_narrow``: or any wider one will do."""
    if not entries:
        return False
    return all_narrow or entries[0].cols // 2 < cols <= entries[-1].cols


def possible(shape: Shape, request: Request) -> bool:
    """Whether ``shape`` can serve ``request``."""
    if shape.regime in HOPPER_REGIMES and request.arch not in HOPPERS:
        return False
    if request.operator in MASKS and shape.regime in UNMASKED_REGIMES:
        return False
    if shape.why_not(request.cols, request.size, request.edges, request.contiguous):
        return False
    if shape.regime == "chunks":
        dealt = deal(shape, request.cols, request.size, request.edges, request.lines)
        room = request.multiprocessors * (shape.sizes[1] // shape.sizes[4])
        return dealt.tickets <= room
    if shape.regime == "grid":  # all blocks at once
        _, parts, least = shape.sizes
        return request.rows * parts <= request.multiprocessors * least
    return True


def _by_rule(request: Request) -> Shape:
    """A shape that serves any row on any GPU."""
    vectors = vectors_from_line(request.cols, request.size, request.edges)
    least = max(16, least_lanes(request.size, request.edges)) if request.edges else 1
    if vectors <= 128:
        lanes = next((n for n in (1, 2, 4, 8, 16) if n >= max(least, vectors / 2)), 32)
        return Shape("warp", (lanes, 128))
    for most, threads in BLOCKS:
        if vectors <= most:
            return Shape("block", (threads, 1), raw=request.size == 2)
    return _in_one_grid(request, vectors) or STREAM


def _in_one_grid(request: Request, vectors: int) -> Shape | None:
    """Few wide rows over all multiprocessors, a block each; None where they do not fit."""
    parts = min(GRID_PARTS, request.multiprocessors // max(1, request.rows))
    shape = Shape("grid", (GRID_THREADS, parts, 1), raw=request.size == 2)
    fits = parts > 1 and -(-vectors // (parts * LINE)) * LINE <= GRID_HELD * GRID_THREADS
    return shape if fits and possible(shape, request) else None
