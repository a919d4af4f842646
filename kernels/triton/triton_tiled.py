"""triton_tiled: three sweeps over the row, a block of columns at a time.

moves    X three times, Y once
launch   grid = rows, block as the registry line says (1024, 4096 or 16,384), 4 warps
holds    any cols; any row stride
teaches  what the path costs that S1's wrapper never reached, by the size of its block
source   S1, tiled path; its second pass counted padding in the sum, here padding is -inf
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

    total = tl.full([], 0.0, tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(x - peak), axis=0)

    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        y = tl.exp(x - peak) / total
        tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=at < cols)


def softmax(x: Tensor, out: Tensor, block: int) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``, ``block`` columns at a time."""
    rows, cols = x.shape
    _tiled[(rows,)](x, out, x.stride(0), out.stride(0), cols, BLOCK=block, num_warps=WARPS)
    return out


def specialisations(block: int) -> Iterator[Specialisation]:
    """The block of the registry line."""
    yield Specialisation(_tiled, {"BLOCK": block}, WARPS)
