"""Tensors in memory as a layout has them, and whether anything beside them was written."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.check import planted
from experiments.layout import Layout

UNTOUCHED = 7.0


@dataclass(frozen=True)
class Placed:
    """An input and an output (rows, cols), and the memory that each lies in.

    ``around`` is what each memory holds beside its rows.
    """

    x: Tensor
    out: Tensor
    memory: tuple[Tensor, ...]
    around: tuple[float, ...]

    def surroundings_untouched(self) -> bool:
        """Whether nothing but ``x`` and ``out`` was written.  Overwrites both."""
        return all(map(_alone, (self.x, self.out), self.memory, self.around))


def _alone(rows: Tensor, memory: Tensor, around: float) -> bool:
    rows.fill_(around)
    whole = memory.isnan() if math.isnan(around) else memory == around
    return bool(whole.all())


def placed(
    layout: Layout, rows: int, cols: int, dtype: torch.dtype, device: str, seed: int, guard: int = 0
) -> Placed:
    """Planted input (rows, cols), and an output full of NaN, as ``layout`` has them.

    Memory ends with the last row: whoever reads on leaves the allocation, which memcheck sees.  Or
    ``guard`` elements stand before and after it, and then the input's rows lie among NaN, which
    whoever reads it and counts it carries into a result.
    """

    def rows_in_memory(before: int, gap: int, around: float) -> tuple[Tensor, Tensor]:
        size = before + rows * (cols + gap) - gap + 2 * guard
        memory = torch.full((size,), around, dtype=dtype, device=device)
        return memory.as_strided((rows, cols), (cols + gap, 1), guard + before), memory

    of_x = math.nan if guard else UNTOUCHED
    x, around_x = rows_in_memory(layout.before_x, layout.gap_x, of_x)
    x.copy_(planted(rows, cols, dtype, device, seed))
    if layout.in_place:
        return Placed(x, x, (around_x,), (of_x,))
    out, around_out = rows_in_memory(layout.before_out, layout.gap_out, UNTOUCHED)
    out.fill_(torch.nan)
    return Placed(x, out, (around_x, around_out), (of_x, UNTOUCHED))
