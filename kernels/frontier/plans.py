"""The regimes of the family, and what each compiles and launches for a row's width.

Imports neither torch nor CUDA: the build reads it on every machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REGIMES = ("warp", "tile", "block", "cluster", "staged", "grid", "chunks", "stream")
VECTOR_BYTES = 16
# What a row has outside its 16-byte vectors: nothing; some elements, and the row of results too, at
# the same places; or at others.
EDGES = ("none", "edges", "edges apart")
NONE, ALIKE, APART = range(3)
LINE = 8  # vectors of a line of memory
TILE_BYTES = 128  # of a tile at most, for each thread, if it is more than one row
# Of a staged row: the most of it in a block's shared memory, and vectors of it to a thread.
STAGED_BYTES, STAGED_VECTORS = 224 * 1024, 32
# Those whose elements lie on chip without their columns: masks are for the others.
UNMASKED_REGIMES = ("tile", "staged", "chunks")
# Those whose kernels need clusters of 16, the copy engine or more shared memory than a block of
# earlier GPUs has, and the architectures that have them.
HOPPER_REGIMES, HOPPERS = ("tile", "cluster", "staged", "chunks"), (90, 100, 103)
USUAL: Mapping[str, Any] = {"together": 1, "exchanges": 1, "early": True}  # of a shape


@dataclass(frozen=True)
class Shape:
    """A regime and what is chosen beside a row's width.

    warp     sizes = (lanes of a row, threads of a block)
    tile     sizes = (lanes of a row, threads of a tile)
    block    sizes = (threads of a row, least blocks of a multiprocessor)
    cluster  sizes = (threads of a block, blocks of a row, least blocks of a multiprocessor)
    staged   sizes = (threads of a block, blocks of a row, least blocks of a multiprocessor)
    grid     sizes = (threads of a block, blocks of a row, least blocks of a multiprocessor)
    chunks   sizes = (vectors of a chunk, slots, reducing warps, writing warps, chunks of a ticket,
                      chunks in the writers' registers, chunks on their way at most: a ticket's at
                      least)
    stream   sizes = (threads of a row,)

    ``raw`` (block, cluster, grid) keeps the row as it came and exponentiates twice: rows of 16 bits
    then take half the registers.  ``together`` (warp) is how many rows a group of lanes has, and
    ``early`` (warp) whether its blocks may be there before their turn (kernels/frontier/turn.cuh),
    which takes the GPU a nanosecond for each.  ``exchanges`` (block) is 2 where the maximum is
    known before any exponential.  ``invariant`` sums without an order (kernels/frontier/exact.cuh):
    all shapes then give the same bits.
    """

    regime: str
    sizes: tuple[int, ...]
    raw: bool = False
    invariant: bool = False
    together: int = 1
    exchanges: int = 1
    early: bool = True

    @property
    def unusual(self) -> dict[str, Any]:
        """What of USUAL is otherwise here, by name."""
        return {name: own for name in USUAL if (own := getattr(self, name)) != USUAL[name]}

    def plan(self, cols: int, size: int, edges: int) -> "Plan":
        """For rows of ``cols`` elements of ``size`` bytes and ``edges`` as NONE, ALIKE or APART."""
        threads, held = self.sizes[0], 0
        match self.regime:
            case "warp":
                held = -(-max(1, cols * size // VECTOR_BYTES) // threads)
            case "tile":
                held = -(-cols // threads)
            case "block":
                held = -(-vectors_from_line(cols, size, edges) // threads)
            case "cluster" | "grid":
                lines = -(-vectors_from_line(cols, size, edges) // (self.sizes[1] * LINE))
                held = -(-lines * LINE // threads)
        return Plan(self, held, max(int(edges), self.regime == "tile"))

    def why_not(self, cols: int, size: int, edges: int, contiguous: bool) -> str:
        """Why rows of ``cols`` elements of ``size`` bytes cannot go this way; '' if they can."""
        if self.regime == "tile" and not contiguous:
            return "rows are not side by side"
        if self.regime == "warp" and self.sizes[0] < least_lanes(size, edges):
            return "fewer lanes than its edges need"
        if self.regime == "staged":
            share = staged_vectors(self, cols, size, edges)
            if share * VECTOR_BYTES > STAGED_BYTES or share > STAGED_VECTORS * self.sizes[0]:
                return "a block has no room for its share of the row"
        if self.regime == "chunks" and self.sizes[6] < self.sizes[4]:
            return "a ticket has more chunks than may be on their way"
        return ""


@dataclass(frozen=True)
class Plan:
    """A kernel: a shape, the vectors (of a tile: elements) that a thread holds, and the edges.

    ``given`` are the C++ types of what it takes after its other arguments (operators.cuh).
    """

    shape: Shape
    held: int
    edges: int
    given: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        return HERE / f"{self.shape.regime}.cu"

    def expression(self, c_type: str) -> str:
        """The kernel as C++ names it, for elements of ``c_type``."""
        shape, sizes, edges = self.shape, self.shape.sizes, self.edges
        if shape.regime == "cluster" and edges == APART and self.held > 16:
            # Each lane has two vectors more on their way (load.cuh): registers for them.
            sizes = (*sizes[:-1], max(1, sizes[-1] - 1))
        match shape.regime:
            case "warp":
                arguments = (*sizes, shape.together, self.held, edges, shape.early)
            case "tile":
                arguments = (*sizes, self.held)
            case "chunks":
                arguments = (*sizes[:4], sizes[5], edges)
            case "staged" | "stream":
                arguments = (*sizes, edges)
            case "block":
                arguments = (
                    sizes[0], self.held, shape.exchanges, sizes[1], shape.raw, edges
                )  # fmt: skip
            case "grid":  # the blocks of a row are no constant of the kernel
                arguments = (sizes[0], self.held, sizes[2], shape.raw, edges)
            case _:  # cluster
                arguments = (sizes[0], self.held, *sizes[1:], shape.raw, edges)
        words = [*(str(a).lower() for a in (*arguments, shape.invariant)), *self.given]
        return f"softmax<{', '.join([c_type, *words])}>"

    @property
    def threads(self) -> int:
        """Of a block."""
        match self.shape.regime:
            case "warp" | "tile":
                return self.shape.sizes[1]
            case "chunks":
                reducing, writing = self.shape.sizes[2:4]
                if self.shape.invariant:  # summing warps too, and twice a poster and a gatherer
                    return 32 * (2 * reducing + writing + 5)
                return 32 * (reducing + writing + 3)
        return self.shape.sizes[0]

    def cols_held(self, size: int) -> int:
        """Columns, of elements of ``size`` bytes, that a row's threads hold; 0 if they do not."""
        sizes, width = self.shape.sizes, VECTOR_BYTES // size
        match self.shape.regime:
            case "tile":
                return sizes[0] * self.held
            case "cluster" | "grid":
                return sizes[0] * sizes[1] * self.held * width
        return sizes[0] * self.held * width

    @property
    def ring_bytes(self) -> int:
        """Of shared memory that chunks lie in; a tile's follow from the row's width."""
        if self.shape.regime != "chunks":
            return 0
        return self.shape.sizes[0] * self.shape.sizes[1] * VECTOR_BYTES

    @property
    def label(self) -> str:
        """For people."""
        words = [self.shape.regime, "x".join(map(str, self.shape.sizes))]
        words += [f"held={self.held}"] * bool(self.held)
        words += [f"together={self.shape.together}"] * (self.shape.together > 1)
        words += [*["late"] * (not self.shape.early), *["twice"] * (self.shape.exchanges > 1)]
        words += [*["raw"] * self.shape.raw, *[EDGES[self.edges]] * bool(self.edges)]
        return " ".join([*words, *["invariant"] * self.shape.invariant, *self.given])


def vectors_from_line(cols: int, size: int, edges: int) -> int:
    """The most vectors of a row, counted from the line in which the first one lies.

    Without edges they are counted from the first.
    """
    return max(1, cols * size // VECTOR_BYTES) + (LINE - 1 if edges else 0)


def least_lanes(size: int, edges: int) -> int:
    """The fewest lanes that a row of elements of ``size`` bytes may have, of at most a warp.

    One for every element before and after its vectors, less than a vector at either end; and where
    results lie otherwise, and elements are up to 30, all of a warp, which shuffles one row's.
    """
    return {NONE: 1, ALIKE: 2 * (VECTOR_BYTES // size - 1), APART: 32}[edges]


def tile_rows(shape: Shape, cols: int, size: int) -> int:
    """Rows of a tile: a power of two of at most TILE_BYTES a thread, or one row."""
    rows = max(1, TILE_BYTES * shape.sizes[1] // (cols * size))
    return 1 << (rows.bit_length() - 1)


def tile_apart(shape: Shape, cols: int, size: int) -> int:
    """How far apart the rows of a tile lie that a warp takes on together: 1, 2, 4, ...

    Of shared memory's 32 banks of 4 bytes, each gives a warp one word at a time.
    """
    lanes = shape.sizes[0]
    together = 32 // lanes

    def turns(apart: int) -> int:
        rows = [row * apart * cols for row in range(together)]
        words = {(row + lane) * size // 4 for row in rows for lane in range(lanes)}
        banks = [word % 32 for word in words]
        return max(map(banks.count, banks))

    most = max(1, tile_rows(shape, cols, size) // together)
    return min((1 << k for k in range(most.bit_length())), key=turns)


def staged_vectors(shape: Shape, cols: int, size: int, edges: int) -> int:
    """The most vectors of a row that each of its blocks has: whole lines."""
    parts = shape.sizes[1]
    return -(-vectors_from_line(cols, size, edges) // (parts * LINE)) * LINE


def staged_bytes(shape: Shape, cols: int, size: int, edges: int) -> int:
    """Of shared memory that a block's share lies in, and a vector on either side."""
    return (staged_vectors(shape, cols, size, edges) + 2) * VECTOR_BYTES


@dataclass(frozen=True)
class Deal:
    """How a row is dealt out in chunks: their number, their vectors, and the tickets of a row."""

    chunks: int
    vectors: int
    tickets: int


def deal(shape: Shape, cols: int, size: int, edges: int, lines: bool) -> Deal:
    """For rows of ``cols`` elements of ``size`` bytes, which may all start with a line."""
    # Where results lie otherwise, a chunk's last vector is in part the next chunk's first.
    most, together = shape.sizes[0] - LINE * (edges == APART), shape.sizes[4]
    vectors = vectors_from_line(cols, size, not lines)
    each = -(-vectors // -(-vectors // most))
    each = -(-each // LINE) * LINE
    chunks = -(-vectors // each)
    return Deal(chunks, each, -(-chunks // together))
