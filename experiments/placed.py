"""Tensors in memory as a layout has them, and whether anything beside them was written."""

from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.check import planted
from experiments.layout import Layout

UNTOUCHED = 7.0


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
