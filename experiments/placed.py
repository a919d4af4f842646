"""Where rows lie in memory: the layouts that a kernel has to take as they come."""

from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.check import planted

VECTOR_BYTES = 16  # what a thread loads at once, from a multiple of it
UNTOUCHED = 7.0


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

    def aligned(self, cols: int, size: int) -> bool:
        """Whether all rows of ``cols`` elements of ``size`` bytes start and end on 16 bytes."""
        lengths = (self.before_x, self.before_out, self.gap_x, self.gap_out, cols)
        return all(length * size % VECTOR_BYTES == 0 for length in lengths)


LAYOUTS = (
    Layout("contiguous"),
    Layout("in place", in_place=True),
    Layout("stride N + 8", gap_x=8, gap_out=8),
    Layout("stride N + 1", gap_x=1, gap_out=1),
    Layout("one element off", before_x=1, before_out=1),
    Layout("sliced input", before_x=1, gap_x=1),  # wider[:, 1:], into a tensor of its own
)


@dataclass(frozen=True)
class Placed:
    """An input and an output (rows, cols), and the memory that each lies in."""

    x: Tensor
    out: Tensor
    memory: tuple[Tensor, ...]

    def surroundings_untouched(self) -> bool:
        """Whether nothing but ``x`` and ``out`` was written.  Overwrites both."""
        self.x.fill_(UNTOUCHED)
        self.out.fill_(UNTOUCHED)
        return all(bool((memory == UNTOUCHED).all()) for memory in self.memory)


def placed(
    layout: Layout, rows: int, cols: int, dtype: torch.dtype, device: str, seed: int
) -> Placed:
    """Planted input (rows, cols), and an output full of NaN, as ``layout`` has them.

    Memory ends with the last row: whoever reads on leaves the allocation.
    """

    def rows_in_memory(before: int, gap: int) -> tuple[Tensor, Tensor]:
        size = before + rows * (cols + gap) - gap
        memory = torch.full((size,), UNTOUCHED, dtype=dtype, device=device)
        return memory.as_strided((rows, cols), (cols + gap, 1), before), memory

    x, around_x = rows_in_memory(layout.before_x, layout.gap_x)
    x.copy_(planted(rows, cols, dtype, device, seed))
    if layout.in_place:
        return Placed(x, x, (around_x,))
    out, around_out = rows_in_memory(layout.before_out, layout.gap_out)
    out.fill_(torch.nan)
    return Placed(x, out, (around_x, around_out))
