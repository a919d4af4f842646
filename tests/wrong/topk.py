"""Mistakes in taking the k largest of a softmax: which they are, in what order, out of how many."""

import torch
from torch import Tensor

from kernels.outputs import TopK


def right(x: Tensor, out: TopK) -> TopK:
    """The control: nothing is wrong with this one."""
    return _written(out, *_top(_softmax(x), out))


def nothing(x: Tensor, out: TopK) -> TopK:
    """A launch that failed and that nobody asked about."""
    return out


def unsorted(x: Tensor, out: TopK) -> TopK:
    """The k largest, the smallest of them first."""
    return _written(out, *(t.flip(1) for t in _top(_softmax(x), out)))


def neighbours_swapped(x: Tensor, out: TopK) -> TopK:
    """The last two stand the wrong way round, however close they are."""
    order = list(range(out.values.shape[1]))
    order[-2:] = reversed(order[-2:])
    return _written(out, *(t[:, order] for t in _top(_softmax(x), out)))


def one_index_twice(x: Tensor, out: TopK) -> TopK:
    """Two threads return the same column for equal values."""
    values, indices = _top(_softmax(x), out)
    indices[:, -1] = indices[:, 0]
    return _written(out, values, indices)


def half_of_the_row(x: Tensor, out: TopK) -> TopK:
    """The sum is that of the whole row, the lists those of half of the threads."""
    return _written(out, *_top(_softmax(x)[:, : -(-x.shape[1] // 2)], out))


def half_of_the_row_alone(x: Tensor, out: TopK) -> TopK:
    """The other half of the row is read by nobody."""
    return right(x[:, : -(-x.shape[1] // 2)], out)


def without_the_last(x: Tensor, out: TopK) -> TopK:
    """A loop that ends one early: the last value is what the memory held."""
    few = TopK(out.values[:, :-1], out.indices[:, :-1])
    right(x, few)
    return out


def the_next_for_the_last(x: Tensor, out: TopK) -> TopK:
    """In the place of the k-th stands the one after it."""
    values, indices = _softmax(x).sort(dim=1, descending=True)
    k = out.values.shape[1]
    order = [*range(k - 1), k]
    return _written(out, values[:, order], indices[:, order])


def not_normalised(x: Tensor, out: TopK) -> TopK:
    """The division is missing."""
    wide = x.double()
    return _written(out, *_top((wide - wide.amax(dim=1, keepdim=True)).exp(), out))


def normalised_among_themselves(x: Tensor, out: TopK) -> TopK:
    """The softmax of the k largest: their sum is 1."""
    values, indices = _top(x.double(), out)
    return _written(out, _softmax(values), indices)


def logits(x: Tensor, out: TopK) -> TopK:
    """The right columns, the input in them."""
    return _written(out, *_top(x, out))


def neighbouring_columns(x: Tensor, out: TopK) -> TopK:
    """Values are right, columns are counted from one."""
    values, indices = _top(_softmax(x), out)
    return _written(out, values, (indices + 1) % x.shape[1])


def columns_of_nobody(x: Tensor, out: TopK) -> TopK:
    """Lists start with (-inf, -1), above which no -inf of the row can rise."""
    values, indices = _top(_softmax(x), out)
    taken = x.gather(1, indices)
    return _written(out, values, indices.where(taken > -torch.inf, -1))


def equals_once(x: Tensor, out: TopK) -> TopK:
    """What equals the largest is taken out together with it."""
    left = _softmax(x)
    for k in range(out.values.shape[1]):
        out.values[:, k], out.indices[:, k] = left.max(dim=1)
        left = left.masked_fill(left == left.amax(dim=1, keepdim=True), 0.0)
    return out


def zeros_for_nan(x: Tensor, out: TopK) -> TopK:
    """Rows that have no softmax become zeros."""
    right(x, out).values.nan_to_num_(0.0)
    return out


def _softmax(x: Tensor) -> Tensor:
    return torch.softmax(x.double(), dim=1)


def _top(probabilities: Tensor, out: TopK) -> tuple[Tensor, Tensor]:
    values, indices = probabilities.topk(out.values.shape[1], dim=1)
    return values, indices


def _written(out: TopK, values: Tensor, indices: Tensor) -> TopK:
    out.values.copy_(values)
    out.indices.copy_(indices)
    return out
