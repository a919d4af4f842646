"""A tensor of any number of dimensions as the rows that a kernel takes."""

from collections.abc import Sequence
from typing import NamedTuple


class Rows(NamedTuple):
    """``rows`` of ``cols`` elements side by side, ``stride`` elements from row to row."""

    rows: int
    cols: int
    stride: int


def as_rows(shape: Sequence[int], strides: Sequence[int]) -> Rows | None:
    """The rows along the last dimension; None where they lie unevenly, or their elements apart."""
    if not shape:
        return Rows(1, 1, 1)
    cols = shape[-1]
    if 0 in shape:
        return Rows(0, cols, cols)
    if cols > 1 and strides[-1] != 1:
        return None
    rows, stride = 1, cols  # one row has no stride that says anything
    for size, step in zip(reversed(shape[:-1]), reversed(strides[:-1]), strict=True):
        if size == 1:
            continue
        if rows == 1:
            stride = step
        elif step != rows * stride:
            return None
        rows *= size
    return Rows(rows, cols, stride)
