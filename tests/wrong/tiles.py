"""Mistakes of blocks and tiles, in Triton: padding, a capped block, a lost rescaling, offsets.

The mistake is the default of a keyword; another value puts it right.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 1024
CAP = 1024
INF = float("inf")
MOST = torch.finfo(torch.float32).max


@triton.jit
def _padding(
    x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr, PADDING: tl.constexpr
):
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
        x = tl.load(x_ptr + row * x_stride + at, mask=at < cols, other=PADDING)
        total += tl.sum(tl.exp(x.to(tl.float32) - peak), axis=0)
    for start in range(0, cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + row * x_stride + at, mask=at < cols, other=-float("inf"))
        y = tl.exp(x.to(tl.float32) - peak) / total
        tl.store(out_ptr + row * out_stride + at, y.to(out_ptr.dtype.element_ty), mask=at < cols)


def padding_in_the_sum(x: Tensor, out: Tensor, padding: float = 0.0) -> Tensor:
    """Columns past the end load 0 in the second pass and add exp(0 - max) (S1, tiled path)."""
    _padding[(x.shape[0],)](
        x, out, x.stride(0), out.stride(0), x.shape[1], BLOCK=TILE, PADDING=padding
    )
    return out


@triton.jit
def _row(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr, PADDING: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + lane, mask=lane < cols).to(tl.float32)
    x = tl.where(lane < cols, x, PADDING)
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * out_stride + lane, y.to(out_ptr.dtype.element_ty), mask=lane < cols)


def capped_block(x: Tensor, out: Tensor, cap: int | None = CAP) -> Tensor:
    """The block is capped at 1024, and the kernel needs one as wide as the row (S3)."""
    block = triton.next_power_of_2(x.shape[1])
    return _rows(x, out, block if cap is None else min(cap, block), -INF)


def finite_padding(x: Tensor, out: Tensor, padding: float = -MOST) -> Tensor:
    """Padding of -FLT_MAX is larger than -inf: a row of nothing but -inf sums padding."""
    return _rows(x, out, 2 * triton.next_power_of_2(x.shape[1]), padding)


def _rows(x: Tensor, out: Tensor, block: int, padding: float) -> Tensor:
    _row[(x.shape[0],)](
        x, out, x.stride(0), out.stride(0), x.shape[1], BLOCK=block, PADDING=padding
    )
    return out


@triton.jit
def _offset(out_ptr, stride, WIDE: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out_ptr + row, (row.to(tl.int64) if WIDE else row) * stride)


def row_offsets(rows: int, stride: int, device: str, wide: bool = False) -> Tensor:
    """Where each row starts, in elements, by a program's own arithmetic: 32 bits (S1, S2, S3)."""
    out = torch.zeros(rows, dtype=torch.int64, device=device)
    _offset[(rows,)](out, stride, WIDE=wide)
    return out


@triton.jit
def _block(out_ptr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.store(out_ptr + lane, lane, mask=lane < 1)


def block_runs(block: int, device: str) -> bool:
    """Whether Triton takes a block of so many columns."""
    try:
        _block[(1,)](torch.zeros(1, dtype=torch.int32, device=device), BLOCK=block)
    except Exception as error:  # the interpreter and the compiler raise different types
        if "maximum tensor numel" not in str(error):
            raise
        return False
    return True


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
