"""triton_tiled_f64: three sweeps over the row, the sum kept in float64, one a lane.

moves    X three times, Y once
launch   grid = rows, block = 4096, 4 warps
holds    any cols; any row stride
teaches  what a float64 accumulator costs and brings where the row is streamed
source   S1, numeric strategies
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

from kernels.specialise import Specialisation
from kernels.triton.triton_hybrid import WARPS

if TYPE_CHECKING:  # compiling needs no torch
    from collections.abc import Iterator

    from torch import Tensor

BLOCK = 4096


@triton.jit
def _tiled(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    out_ptr += row * out_stride
    lane = tl.arange(0, BLOCK)

    peak = tl.full([], -float("inf"), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(x, axis=0))  # drops NaN, which the sum below brings back

    sums = tl.zeros([BLOCK], tl.float64)
    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        sums += tl.exp(x - peak).to(tl.float64)
    total = tl.sum(sums, axis=0).to(tl.float32)

    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        y = tl.exp(x - peak) / total
        tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=at < cols)


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    rows, cols = x.shape
    _tiled[(rows,)](x, out, x.stride(0), out.stride(0), cols, BLOCK=BLOCK, num_warps=WARPS)
    return out


def specialisations() -> Iterator[Specialisation]:
    """The one block."""
    yield Specialisation(_tiled, {"BLOCK": BLOCK}, WARPS)
