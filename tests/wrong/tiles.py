"""Mistakes of blocks and tiles, in Triton: padding, a capped block, a lost rescaling."""

import triton
import triton.language as tl
from torch import Tensor

TILE = 1024
CAP = 1024


@triton.jit
def _padding(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    peak = tl.full([], -float("inf"), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + row * x_stride + at, mask=at < cols, other=-float("inf"))
        peak = tl.maximum(peak, tl.max(x.to(tl.float32), axis=0))
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + row * x_stride + at, mask=at < cols, other=0.0)
        total += tl.sum(tl.exp(x.to(tl.float32) - peak), axis=0)
    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + row * x_stride + at, mask=at < cols, other=-float("inf"))
        y = tl.exp(x.to(tl.float32) - peak) / total
        tl.store(out_ptr + row * out_stride + at, y.to(out_ptr.dtype.element_ty), mask=at < cols)


def padding_in_the_sum(x: Tensor, out: Tensor) -> Tensor:
    """Columns past the end load 0 in the second pass and add exp(0 - max) (S1, tiled path)."""
    _padding[(x.shape[0],)](x, out, x.stride(0), out.stride(0), x.shape[1], BLOCK=TILE)
    return out


@triton.jit
def _row(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + lane, mask=lane < cols, other=-float("inf"))
    numerator = tl.exp(x.to(tl.float32) - tl.max(x.to(tl.float32), axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * out_stride + lane, y.to(out_ptr.dtype.element_ty), mask=lane < cols)


def capped_block(x: Tensor, out: Tensor) -> Tensor:
    """The block is capped at 1024, and the kernel needs one as wide as the row (S3)."""
    block = min(CAP, triton.next_power_of_2(x.shape[1]))
    _row[(x.shape[0],)](x, out, x.stride(0), out.stride(0), x.shape[1], BLOCK=block)
    return out


@triton.jit
def _online(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    peak = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + row * x_stride + at, mask=at < cols, other=-float("inf"))
        peak = tl.maximum(peak, tl.max(x.to(tl.float32), axis=0))
        total += tl.sum(tl.exp(x.to(tl.float32) - peak), axis=0)
    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + row * x_stride + at, mask=at < cols, other=-float("inf"))
        y = tl.exp(x.to(tl.float32) - peak) / total
        tl.store(out_ptr + row * out_stride + at, y.to(out_ptr.dtype.element_ty), mask=at < cols)


def sum_not_rescaled(x: Tensor, out: Tensor) -> Tensor:
    """The online form without its correction: earlier tiles keep their own maximum."""
    _online[(x.shape[0],)](x, out, x.stride(0), out.stride(0), x.shape[1], BLOCK=TILE)
    return out
