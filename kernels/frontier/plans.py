"""The regimes of the family, and what each compiles and launches for a row's width.

Imports neither torch nor CUDA: the build reads it on every machine.
"""

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
REGIMES = ("warp", "tile", "block", "cluster", "chunks", "stream")
VECTOR_BYTES = 16
WARP_THREADS, TILE_THREADS = 128, 64  # of a block of these regimes
LINE = 8  # vectors of a line of memory
TILE_BYTES = 8192  # of shared memory that a tile takes at most, if it is more than one row
# Those whose kernels need clusters of 16, the copy engine or 216 KB of a block's shared memory, and
# the architectures that have them.
HOPPER_REGIMES, HOPPERS = ("tile", "cluster", "chunks"), (90, 100, 103)


@dataclass(frozen=True)
class Shape:
    """A regime and what is chosen beside a row's width.

    warp     sizes = (lanes of a row,)
    tile     sizes = (lanes of a row,)
    block    sizes = (threads of a row, least blocks of a multiprocessor)
    cluster  sizes = (threads of a block, blocks of a row)
    chunks   sizes = (vectors of a chunk, slots, reducing warps, writing warps, chunks of a ticket)
    stream   sizes = (threads of a row,)

    ``raw`` (block, cluster) keeps the row as it came and exponentiates twice: rows of 16 bits then
    take half the registers.
    """

    regime: str
    sizes: tuple[int, ...]
    raw: bool = False

    def plan(self, cols: int, size: int, edges: bool) -> "Plan":
        """For rows of ``cols`` elements of ``size`` bytes, with or without edges."""
        threads, held = self.sizes[0], 0
        match self.regime:
            case "warp":
                held = -(-max(1, cols * size // VECTOR_BYTES) // threads)
            case "tile":
                held = -(-cols // threads)
            case "block":
                held = -(-vectors_from_line(cols, size, edges) // threads)
            case "cluster":
                lines = -(-vectors_from_line(cols, size, edges) // (self.sizes[1] * LINE))
                held = -(-lines * LINE // threads)
        return Plan(self, held, edges or self.regime == "tile")

    def why_not(self, cols: int, size: int, edges: bool, contiguous: bool) -> str:
        """Why rows of ``cols`` elements of ``size`` bytes cannot go this way; '' if they can."""
        if self.regime == "tile" and not contiguous:
            return "rows are not side by side"
        if self.regime == "warp" and edges and self.sizes[0] < 2 * (VECTOR_BYTES // size - 1):
            return "fewer lanes than elements at the edges"
        return ""


@dataclass(frozen=True)
class Plan:
    """A kernel: a shape, the vectors (of a tile: elements) that a thread holds, edges or not."""

    shape: Shape
    held: int
    edges: bool

    @property
    def file(self) -> Path:
        return HERE / f"{self.shape.regime}.cu"

    def expression(self, c_type: str) -> str:
        """The kernel as C++ names it, for elements of ``c_type``."""
        sizes, edges = self.shape.sizes, str(self.edges).lower()
        match self.shape.regime:
            case "warp":
                arguments = (*sizes, self.held, edges)
            case "tile":
                arguments = (*sizes, self.held)
            case "chunks":
                arguments = (*sizes[:4], edges)
            case "stream":
                arguments = (*sizes, edges)
            case _:
                arguments = (sizes[0], self.held, sizes[1], str(self.shape.raw).lower(), edges)
        return f"softmax<{', '.join(map(str, (c_type, *arguments)))}>"

    @property
    def threads(self) -> int:
        """Of a block."""
        match self.shape.regime:
            case "warp":
                return WARP_THREADS
            case "tile":
                return TILE_THREADS
            case "chunks":
                return 32 * (sum(self.shape.sizes[2:4]) + 3)
        return self.shape.sizes[0]

    def cols_held(self, size: int) -> int:
        """Columns, of elements of ``size`` bytes, that a row's threads hold; 0 if they do not."""
        sizes, width = self.shape.sizes, VECTOR_BYTES // size
        match self.shape.regime:
            case "tile":
                return sizes[0] * self.held
            case "cluster":
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
        return " ".join([*words, *["raw"] * self.shape.raw, *["edges"] * self.edges])


def vectors_from_line(cols: int, size: int, edges: bool) -> int:
    """The most vectors of a row, counted from the line in which the first one lies.

    Without edges they are counted from the first.
    """
    return max(1, cols * size // VECTOR_BYTES) + (LINE - 1 if edges else 0)


def tile_rows(cols: int, size: int) -> int:
    """Rows of a tile: a power of two of at most TILE_BYTES, or one row."""
    rows = max(1, TILE_BYTES // (cols * size))
    return 1 << (rows.bit_length() - 1)


@dataclass(frozen=True)
class Deal:
    """How a row is dealt out in chunks: their number, their vectors, and the tickets of a row."""

    chunks: int
    vectors: int
    tickets: int


def deal(shape: Shape, cols: int, size: int, lines: bool) -> Deal:
    """For rows of ``cols`` elements of ``size`` bytes, which may all start with a line."""
    most, together = shape.sizes[0], shape.sizes[4]
    vectors = vectors_from_line(cols, size, not lines)
    each = -(-vectors // -(-vectors // most))
    each = -(-each // LINE) * LINE
    chunks = -(-vectors // each)
    return Deal(chunks, each, -(-chunks // together))
