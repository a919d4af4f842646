"""triton_hybrid: a fast path that holds the row, a tiled path that reads it three times.

moves    X once, Y once on the fast path (cols <= 16,384); X three times, Y once on the tiled path
launch   grid = rows, 4 warps; fast: block = next power of two; tiled: block = 4096
holds    any cols; any row stride
teaches  where holding the row should give way to reading it again
source   S1; its second pass counted padding in the sum, here padding is -inf in every pass
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

from kernels.specialise import Specialisation

if TYPE_CHECKING:  # compiling needs no torch
    from collections.abc import Iterator

    from torch import Tensor

# S1's wrapper passes a block as wide as the row, so that its tiled path never runs (the author
# says so).  16,384 columns are 128 a thread: the widest block that 4 warps hold without spilling
# (results/build/*/resources.csv); 4 warps are Triton's default, which S1 never changes.
FAST_COLS = 16_384
TILE = 4096
WARPS = 4


@triton.jit
def _fast(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    inside = lane < cols
    x = tl.load(x_ptr + row * x_stride + lane, mask=inside, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * out_stride + lane, y.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _tiled(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    out_ptr += row * out_stride
    lane = tl.arange(0, BLOCK)

    peaks = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        peaks = tl.maximum(peaks, x)  # drops NaN, which the sum below brings back
    peak = tl.max(peaks, axis=0)

    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        sums += tl.exp(x - peak)
    total = tl.sum(sums, axis=0)

    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        y = tl.exp(x - peak) / total
        tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=at < cols)


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    rows, cols = x.shape
    strides = x.stride(0), out.stride(0)
    if cols <= FAST_COLS:
        block = triton.next_power_of_2(cols)
        _fast[(rows,)](x, out, *strides, cols, BLOCK=block, num_warps=WARPS)
    else:
        _tiled[(rows,)](x, out, *strides, cols, BLOCK=TILE, num_warps=WARPS)
    return out


def specialisations() -> Iterator[Specialisation]:
    """The fast path's blocks from 1024 columns on, and the tile."""
    for log2 in range(10, 15):
        block = 2**log2
        yield Specialisation(_fast, {"BLOCK": block}, WARPS, cols_held=block)
    yield Specialisation(_tiled, {"BLOCK": TILE}, WARPS)
