"""Mistakes in what is written: constants, unwritten parts, the wrong row."""

import torch
from torch import Tensor


def nothing(x: Tensor, out: Tensor) -> Tensor:
    """A launch that failed and that nobody asked about."""
    return out


def zeros(x: Tensor, out: Tensor) -> Tensor:
    """Within any absolute tolerance of a wide softmax."""
    return out.zero_()


def uniform(x: Tensor, out: Tensor) -> Tensor:
    """1/N everywhere: the sums are right, and nearly every value of a wide row is close."""
    return out.fill_(1 / x.shape[1])


def half_a_row(x: Tensor, out: Tensor) -> Tensor:
    """The grid covers half of the columns; the rest keeps what it was."""
    half = -(-x.shape[1] // 2)
    out[:, :half] = torch.softmax(x, dim=1)[:, :half]
    return out


def dropped_tail(x: Tensor, out: Tensor) -> Tensor:
    """4-wide loads and stores of whole vectors only: up to three columns are neither."""
    whole = x.shape[1] // 4 * 4
    out[:, :whole] = torch.softmax(x[:, :whole], dim=1)
    return out


def next_row(x: Tensor, out: Tensor) -> Tensor:
    """Each row's softmax stands one row too far up."""
    return out.copy_(torch.softmax(x, dim=1).roll(-1, dims=0))


def by_columns(x: Tensor, out: Tensor) -> Tensor:
    """The softmax over the other dimension."""
    return out.copy_(torch.softmax(x, dim=0))


def assumed_contiguous(x: Tensor, out: Tensor) -> Tensor:
    """Rows start at row * cols, whatever the stride."""
    rows, cols = x.shape
    packed = x.as_strided((rows, cols), (cols, 1), x.storage_offset())
    return out.copy_(torch.softmax(packed, dim=1))


def logarithm(x: Tensor, out: Tensor) -> Tensor:
    """The function next to it in the manual."""
    return out.copy_(torch.log_softmax(x, dim=1))
