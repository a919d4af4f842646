"""What a variant writes to: the softmax of its input, or the k largest probabilities of a row."""

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from kernels.registry import Variant


class TopK(NamedTuple):
    """The k largest probabilities of each row, largest first, and the columns they stand in.

    ``values`` (rows, k) have the input's dtype, ``indices`` (rows, k) are int64, as torch.topk's.
    """

    values: Tensor
    indices: Tensor


Output = Tensor | TopK
_AnyOutput = TypeVar("_AnyOutput", Tensor, TopK, Output)


def empty_output(v: Variant, x: Tensor) -> Output:
    """Memory that nobody has written to, for what ``v`` gives for ``x`` (rows, cols)."""
    if not v.k:
        return torch.empty_like(x)
    shape = x.shape[0], v.k
    return TopK(x.new_empty(shape), x.new_empty(shape, dtype=torch.int64))


def spoilt(out: _AnyOutput) -> _AnyOutput:
    """``out`` with NaN, and for columns -1, throughout: so that what nobody writes is seen."""
    if isinstance(out, TopK):
        out.values.fill_(torch.nan)
        out.indices.fill_(-1)
    else:
        out.fill_(torch.nan)
    return out
