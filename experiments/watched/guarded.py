"""Tensors in memory of their own, of which nothing but the results may be written."""

from collections.abc import Sequence

import torch
from torch import Tensor

from experiments.placed import UNTOUCHED


class Guarded:
    """The tensors of a launch on ``device``: inputs keep their values, outputs their surroundings.

    Memory ends with the last element: whoever reads on leaves the allocation.  ``before`` elements
    stand before the first, and ``gaps`` after every part of each dimension but the last.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._inputs: list[tuple[Tensor, Tensor]] = []
        self._lent: list[tuple[Tensor, Tensor]] = []

    def given(self, values: Tensor, before: int = 0, gaps: Sequence[int] = ()) -> Tensor:
        """An input that holds ``values``."""
        made = self._lend(values.shape, values.dtype, before, gaps)
        made.copy_(values)
        self._inputs.append((made, made.clone()))
        return made

    def wanted(
        self, shape: Sequence[int], dtype: torch.dtype, before: int = 0, gaps: Sequence[int] = ()
    ) -> Tensor:
        """An output full of NaN; of integers, full of the least."""
        made = self._lend(shape, dtype, before, gaps)
        return made.fill_(torch.nan if dtype.is_floating_point else torch.iinfo(dtype).min)

    def fault(self) -> str:
        """What was written that should not be; '' if nothing was.  Overwrites all tensors."""
        if any(_bits(now).ne(_bits(then)).any() for now, then in self._inputs):
            return "it changed its input"
        for tensor, _ in self._lent:
            tensor.fill_(UNTOUCHED)
        if all(bool((memory == UNTOUCHED).all()) for _, memory in self._lent):
            return ""
        return "it wrote outside of its results"

    def _lend(
        self, shape: Sequence[int], dtype: torch.dtype, before: int, gaps: Sequence[int]
    ) -> Tensor:
        strides = strides_of(shape, gaps)
        size = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        memory = torch.full((before + size,), UNTOUCHED, device=self._device).to(dtype)
        made = memory.as_strided(tuple(shape), strides, before)
        self._lent.append((made, memory))
        return made


def strides_of(shape: Sequence[int], gaps: Sequence[int] = ()) -> tuple[int, ...]:
    """Of a tensor with ``gaps`` after every part of each dimension but the last."""
    gaps = gaps or [0] * len(shape)
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = shape[i + 1] * strides[i + 1] + gaps[i]
    return tuple(strides)


def _bits(x: Tensor) -> Tensor:
    """As integers: NaN differs from itself."""
    return x.contiguous().reshape(-1).view(torch.uint8)
