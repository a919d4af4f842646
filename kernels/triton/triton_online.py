"""triton_online: maximum and sum in one sweep over the row, then a second read to normalise.

moves    X twice, Y once
launch   grid = rows, block = 4096 (less for short rows), 8 warps
holds    any cols; any row stride
teaches  the online normaliser: three reads become two
source   S1's tiled path with S5's online form; Milakov and Gimelshein 2018
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

from kernels.specialise import Specialisation

if TYPE_CHECKING:  # compiling needs no torch
    from collections.abc import Iterator

    from torch import Tensor

TILE = 4096
WARPS = 8


@triton.jit
def _online(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    out_ptr += row * out_stride
    lane = tl.arange(0, BLOCK)

    # The running pair is a scalar a tile, not a lane: one exponential an element, not two.
    peak = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(peak, tl.max(x, axis=0))
        # A tile of nothing but -inf would give exp(-inf - -inf) = NaN here; it adds 0 instead.
        shift = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(peak - shift) + tl.sum(tl.exp(x - shift), axis=0)
        peak = higher

    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        y = tl.exp(x - peak) / total
        tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=at < cols)


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    rows, cols = x.shape
    block = min(TILE, triton.next_power_of_2(cols))
    _online[(rows,)](x, out, x.stride(0), out.stride(0), cols, BLOCK=block, num_warps=WARPS)
    return out


def specialisations() -> Iterator[Specialisation]:
    """The full tile."""
    yield Specialisation(_online, {"BLOCK": TILE}, WARPS)
