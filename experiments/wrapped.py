"""Dealt rows that fill every ring more than twice: a small tensor, of a few multiprocessors.

Where chunks' slots are used again nothing else shows what could go wrong: which barrier's phase a
warp waits for, and who has left a slot.  A whole GPU's rings hold 25 MB.
"""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle

from experiments.launches import Case, Gpu, chosen
from experiments.layout import LAYOUTS, Layout
from kernels import prepared
from kernels.frontier import frontier
from kernels.frontier.plans import ALIKE, APART, HOPPERS, LINE, NONE, VECTOR_BYTES, Shape, deal
from kernels.frontier.select import table
from kernels.registry import ELEMENT_BYTES

MULTIPROCESSORS = 4
TURNS = 2.1  # of a ring, at least
# Of a row, three quarters full each: racecheck takes some seconds a case, by what a block looks at.
# Two multiprocessors at least have chunks of a row, and a ring has several rows at once.
CHUNKS = 4


@dataclass(frozen=True)
class Wrapped(Case):
    """A launch of dealt rows by as many blocks as the GPU is said to have multiprocessors."""

    multiprocessors: int = MULTIPROCESSORS

    def __str__(self) -> str:
        return f"{super().__str__()}, on {self.multiprocessors} multiprocessors"


def turns(case: Case, blocks: int) -> float:
    """How often the ring of a block is filled, on average over ``blocks``, at least."""
    return _chunks(case) / (blocks * case.shape.sizes[1])


def turns_of_places(case: Case, blocks: int) -> float:
    """The same of its places on chip: slots, and chunks in the writers' registers."""
    return _chunks(case) / (blocks * (case.shape.sizes[1] + case.shape.sizes[5]))


def _chunks(case: Case) -> int:
    edges = case.plan.edges
    # Rows that start with a line have the fewest.
    dealt = deal(case.shape, case.cols, ELEMENT_BYTES[case.dtype], edges, lines=edges == NONE)
    return case.rows * dealt.chunks


def cases(gpu: Gpu) -> Iterator[Wrapped]:
    """Every shape of chunks that the table has, and every kernel of theirs that has no order.

    Each in a dtype and with edges that it serves; these, and the layouts, take turns.
    """
    if gpu.arch not in HOPPERS:
        return
    layouts = {kind: cycle(_fitting(kind)) for kind in (NONE, ALIKE, APART)}
    had: Counter[tuple[str, int]] = Counter()
    for shape, served in _shapes(gpu).items():
        dtype, kind = min(served, key=lambda it: (had[it], it))
        had[dtype, kind] += 1
        rows, cols = _rows_cols(shape, ELEMENT_BYTES[dtype], kind)
        yield Wrapped(shape, dtype, rows, cols, next(layouts[kind]))


def _shapes(gpu: Gpu) -> dict[Shape, set[tuple[str, int]]]:
    """With the dtypes and the kinds of edges for which the table has them."""
    found: dict[Shape, set[tuple[str, int]]] = {}
    unordered: dict[tuple[int, ...], tuple[Shape, set[tuple[str, int]]]] = {}
    for (dtype, kind, rows), entries in table(gpu.name).items():
        for entry in entries:
            if entry.shape.regime == "chunks":
                found.setdefault(entry.shape, set()).add((dtype, kind))
                shape = chosen(
                    _fitting(kind)[0], dtype, rows, entry.cols, gpu, invariant=True
                )  # fmt: skip
                # What is written ahead and on its way is no part of such a kernel.
                if shape.regime == "chunks":
                    unordered.setdefault(shape.sizes[:3], (shape, set()))[1].add((dtype, kind))
    return found | dict(unordered.values())


def _fitting(kind: int) -> list[Layout]:
    """The layouts that give whole widths no edges, for NONE, or odd ones edges of this kind."""
    return [each for each in LAYOUTS if each.edges(1024 + (kind > NONE), 4) == kind]


def _rows_cols(shape: Shape, size: int, kind: int) -> tuple[int, int]:
    """As few elements as make CHUNKS chunks of a row, and fill the rings TURNS times."""
    most = shape.sizes[0] - LINE * (kind == APART)
    cols = ((CHUNKS - 1) * most + LINE) * VECTOR_BYTES // size + (kind > NONE)
    return math.ceil(TURNS * MULTIPROCESSORS * shape.sizes[1] / CHUNKS), cols


@contextmanager
def of_few(multiprocessors: int) -> Iterator[None]:
    """Within it the frontier takes the GPU to have so many."""
    whole, thread = frontier.gpu, prepared.THREAD
    launches = thread.launches
    frontier.gpu = lambda index: whole(index)._replace(multiprocessors=multiprocessors)
    thread.launches = {}  # what is prepared for all of them has their number of blocks
    try:
        yield
    finally:
        frontier.gpu, thread.launches = whole, launches
