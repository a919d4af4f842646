"""triton_row_f64: one program per row, the whole row in one block, summed in float64.

moves    X once, Y once, until the row spills
launch   grid = rows, block = next power of two, 4, 8 or 16 warps by width as triton_row
holds    cols <= 131,072, padded to a power of two; any row stride
teaches  what a float64 accumulator costs and brings where the row is held
source   S1, numeric strategies; launch as S2
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

from kernels.specialise import Specialisation
from kernels.triton.triton_row import warps

if TYPE_CHECKING:  # compiling needs no torch
    from collections.abc import Iterator

    from torch import Tensor


@triton.jit
def _softmax(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    inside = lane < cols
    x = tl.load(x_ptr + row * x_stride + lane, mask=inside, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    total = tl.sum(numerator.to(tl.float64), axis=0).to(tl.float32)
    y = (numerator / total).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row * out_stride + lane, y, mask=inside)


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    _softmax[(rows,)](x, out, x.stride(0), out.stride(0), cols, BLOCK=block, num_warps=warps(block))
    return out


def specialisations() -> Iterator[Specialisation]:
    """Every other of the blocks that triton_row is compiled for."""
    for log2 in range(10, 17, 2):
        block = 2**log2
        yield Specialisation(_softmax, {"BLOCK": block}, warps(block), cols_held=block)
