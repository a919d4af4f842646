"""Tensors as columns: how one lies whose softmax goes along a dimension that is not the last.

Imports neither torch nor CUDA, as columns_plans.
"""

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from kernels.frontier.plans import VECTOR_BYTES

PIECE = 256  # bytes: narrower strips of a row are read and written more slowly than whole rows


class Columns(NamedTuple):
    """``outer`` x ``cols`` rows of ``inner`` places side by side, and the steps between rows."""

    outer: int
    cols: int
    inner: int
    outer_stride: int
    step: int

    def aligned(self, size: int) -> bool:
        """Whether rows of elements of ``size`` bytes all begin alike within PIECE bytes."""
        return self.step * size % PIECE == 0


def as_columns(shape: Sequence[int], strides: Sequence[int], dim: int) -> Columns | None:
    """A tensor as columns along ``dim``, from -len(shape) on; None where it lies otherwise.

    So do rows, whose elements lie along ``dim`` itself, and tensors without elements.
    """
    if not shape or 0 in shape:
        return None
    dim %= len(shape)
    inner = 1
    for size, stride in zip(reversed(shape[dim + 1 :]), reversed(strides[dim + 1 :]), strict=True):
        if size > 1:
            if stride != inner:
                return None
            inner *= size
    if inner == 1:
        return None
    cols, outer, outer_stride = shape[dim], 1, 0
    step = strides[dim] if cols > 1 else 0
    for size, stride in zip(reversed(shape[:dim]), reversed(strides[:dim]), strict=True):
        if size > 1:
            if outer == 1:
                outer_stride = stride
            elif stride != outer * outer_stride:
                return None
            outer *= size
    return Columns(outer, cols, inner, outer_stride, step)


def apart(columns: Columns) -> bool:
    """Whether no two elements lie at one place, so that results may go there."""
    rows = columns.step >= columns.inner or columns.cols == 1
    slab = max(columns.step * (columns.cols - 1), 0) + columns.inner
    if columns.outer == 1 or not rows:
        return rows
    # Slabs lie one after the other, or as parts of a row each, within one step.
    within = columns.outer_stride * (columns.outer - 1) + columns.inner <= columns.step
    return columns.outer_stride >= slab or (columns.outer_stride >= columns.inner and within)


def unit_bytes(size: int, *places: int) -> int:
    """The most bytes, up to a vector's, that all ``places`` (bytes) are a multiple of."""
    return max(size, gcd(VECTOR_BYTES, *places))
