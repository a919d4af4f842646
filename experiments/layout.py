"""Where rows lie in memory: the layouts that a kernel has to take as they come."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from experiments.sweeps import Point
from experiments.sweeps.sweep import Fill, Sweep
from kernels.frontier.plans import ALIKE, APART, NONE, VECTOR_BYTES
from kernels.registry import DTYPES

# Where each layout is measured (experiments/layouts.py).
COLS = (1000, 4096, 32_000, 50_257, 131_072, 2**20)
TENSOR_BYTES = 2**29
CONTIGUOUS = "contiguous"


@dataclass(frozen=True)
class Layout:
    """Elements before the first row, and between two rows, of the input and of the output."""

    name: str
    before_x: int = 0
    before_out: int = 0
    gap_x: int = 0
    gap_out: int = 0
    in_place: bool = False

    @property
    def contiguous(self) -> bool:
        return self.gap_x == self.gap_out == 0

    def edges(self, cols: int, size: int) -> int:
        """NONE where all rows of ``cols`` elements of ``size`` bytes start and end on 16 bytes.

        ALIKE where rows of the input and of the output start equally far from there, else APART.
        """
        lengths = (self.before_x, self.before_out, self.gap_x, self.gap_out, cols)
        if all(length * size % VECTOR_BYTES == 0 for length in lengths):
            return NONE
        apart = (self.before_x - self.before_out, self.gap_x - self.gap_out)
        return APART if any(length * size % VECTOR_BYTES for length in apart) else ALIKE


LAYOUTS = (
    Layout(CONTIGUOUS),
    Layout("in place", in_place=True),
    Layout("stride N + 8", gap_x=8, gap_out=8),
    Layout("stride N + 1", gap_x=1, gap_out=1),
    Layout("one element off", before_x=1, before_out=1),
    Layout("sliced input", before_x=1, gap_x=1),  # wider[:, 1:], into a tensor of its own
)
BY_NAME = {layout.name: layout for layout in LAYOUTS}


class Place(NamedTuple):
    """A point, and the name of the layout that its rows have."""

    dtype: str
    rows: int
    cols: int
    layout: str = CONTIGUOUS

    @property
    def point(self) -> Point:
        return Point(self.dtype, self.rows, self.cols)

    @property
    def told(self) -> str:
        """As tables name it: float32 2 x 1,000, sliced input."""
        layout = f", {self.layout}" * (self.layout != CONTIGUOUS)
        return f"{self.dtype} {self.rows:,} x {self.cols:,}{layout}"


def points() -> Iterator[Point]:
    """Tensors of half a GiB, as vocab_scaling has them."""
    fill = Fill(TENSOR_BYTES)
    return Sweep(rows=fill, cols=COLS, dtypes=DTYPES, variants=("frontier",)).points("full")
