"""Eager calls past PyTorch's dispatcher, which from Python takes longer than all else of a call.

What a call depends on is a key, by which a launch is found that lacks its pointers and its stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import is_batchedtensor, is_legacy_batchedtensor

from kernels import operators, ops
from kernels.frontier import backward, columns, frontier
from kernels.frontier.operators import MOST_ROWS, Operator
from kernels.frontier.plans import VECTOR_BYTES
from kernels.frontier.rows import as_rows
from kernels.prepared import Launch, known, launch


class Asked(NamedTuple):
    """What is asked of a tensor: api.softmax says what each is; ``log``: of log_softmax."""

    log: bool
    dim: int
    dtype: torch.dtype | None
    invariant: bool
    scale: float
    is_causal: bool
    factor: float

    @property
    def name(self) -> str:
        return "log_softmax" if self.log else "softmax"

    @property
    def plain(self) -> bool:
        """Whether it is a softmax and nothing more, but for a mask."""
        return not self.log and self.unchanged

    @property
    def unchanged(self) -> bool:
        """Whether elements and results are taken as they are."""
        return self.scale == 1.0 and self.factor == 1.0 and not self.is_causal


def kept(x: Tensor, out: Tensor | None, mask: Tensor | None, asked: Asked) -> Launch | None:
    """The launch that ``first`` made for such tensors; None where there is none.

    What has one needs no checks: the key holds all that they look at, but for who sees the call.
    """
    try:
        ready = known(x.get_device(), _key(x, out, mask, asked))
    except TypeError:  # of what is no argument of a softmax; it is told of elsewhere
        return None
    return ready if _apart(x, out) else None


def again(ready: Launch, x: Tensor, out: Tensor | None, mask: Tensor | None) -> Tensor:
    """The result by the launch that was ``kept`` for such tensors."""
    # New CUDA memory begins on a boundary of 256 bytes or more.
    y = ops.new(x) if out is None else _written(out)
    ready(torch._C._cuda_getCurrentRawStream(x.get_device()), *_pointers(x, y, mask))
    return y


def first(x: Tensor, out: Tensor | None, mask: Tensor | None, asked: Asked) -> Tensor | None:
    """The result by one kernel, whose launch is kept; None where tensors have to be copied."""
    if asked.dtype not in (None, x.dtype) or x.numel() == 0 or not _apart(x, out):
        return None
    y = ops.new(x) if out is None else out
    if (prepare := _one_launch(x, y, mask, asked)) is None:
        return None
    pointers = _pointers(x, y, mask)
    launch(x.get_device(), _key(x, out, mask, asked), prepare, *pointers)
    return y if out is None else _written(out)


def _key(x: Tensor, out: Tensor | None, mask: Tensor | None, asked: Asked) -> tuple[Any, ...]:
    to = None if out is None else (*_lies(out), out.data_ptr() % VECTOR_BYTES)
    of_mask = None if mask is None else _lies(mask)
    return *_lies(x), x.data_ptr() % frontier.LINE_BYTES, asked, to, of_mask


def _lies(x: Tensor) -> tuple[Any, ...]:
    return x.dtype, x.shape, x.stride(), x.get_device()


def _pointers(x: Tensor, y: Tensor, mask: Tensor | None) -> tuple[int, ...]:
    if mask is None:
        return x.data_ptr(), y.data_ptr()
    return x.data_ptr(), y.data_ptr(), mask.data_ptr()


def _apart(x: Tensor, out: Tensor | None) -> bool:
    """Whether a kernel may write to ``out`` while it reads ``x``: it is the same, or apart."""
    return (
        out is None
        or (x.data_ptr() == out.data_ptr() and x.stride() == out.stride())
        or x.untyped_storage().data_ptr() != out.untyped_storage().data_ptr()
    )


def _written(out: Tensor) -> Tensor:
    """``out``; whoever saved it for a gradient is told."""
    torch.autograd.graph.increment_version(out)
    return out


def _one_launch(
    x: Tensor, y: Tensor, mask: Tensor | None, asked: Asked
) -> Callable[[], Launch] | None:
    """Prepares the launch that does it all."""
    if not ops.serves(x, asked.dim, x.dtype) or not 0.0 < asked.scale < math.inf:
        return None
    unchanged = asked.unchanged and mask is None
    if unchanged and not asked.invariant and columns.takes(x, asked.dim, y):
        return partial(columns.prepare, x, asked.dim, y, asked.log)
    masked = mask is not None or asked.is_causal
    if x.dim() == 0 or (masked and x.numel() > MOST_ROWS * x.shape[asked.dim]):
        return None
    rows, to = x.movedim(asked.dim, -1), y.movedim(asked.dim, -1)
    from_rows, to_rows = (as_rows(t.shape, t.stride()) for t in (rows, to))
    if from_rows is None or to_rows is None:
        return None
    if to_rows.rows > 1 and to_rows.stride < to_rows.cols:
        return None
    told = operators.told(x, mask, asked.dim, asked.is_causal)
    if masked and told is None:
        return None
    operator = None
    if asked.log or not unchanged:
        operator = Operator(asked.log, float(asked.scale), float(asked.factor), told)
    return partial(frontier.prepare, rows, to, asked.invariant, None, operator)


class Differentiated(torch.autograd.Function):
    """The same with a gradient of the tensor, not of its mask."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, mask: Tensor | None, asked: Asked, ready: Launch | None
    ) -> Tensor:  # fmt: skip
        y = again(ready, x, None, mask) if ready else first(x, None, mask, asked)
        log, dim, dtype, invariant, scale, is_causal, factor = asked
        if y is None:
            y = operators.softmax_operator(
                x, mask, dim, dtype, log, float(scale), float(factor), is_causal, invariant
            )
        ctx.dim, ctx.dtype = dim, x.dtype
        masked = mask is not None or is_causal
        ctx.options = None if asked.plain and not masked else (log, scale, factor, masked)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Differentiated.gradient(ctx, grad), None, None, None

    @staticmethod
    def gradient(ctx: Any, grad: Tensor) -> Tensor:
        """Of the tensor, from ``grad`` of the result."""
        (y,) = ctx.saved_tensors
        # Of a gradient that is differentiated itself, or is no plain tensor, the operator knows.
        direct = (
            not torch.is_grad_enabled()
            and type(grad) is Tensor
            and not (is_batchedtensor(grad) or is_legacy_batchedtensor(grad))
        )
        if ctx.options is None:
            last = ctx.dim in (-1, y.dim() - 1) and y.dtype == grad.dtype == ctx.dtype
            if direct and last and grad.is_contiguous() and ops.serves(y, -1, y.dtype):
                return backward.softmax_backward(grad, y, torch.empty_like(y))
            of = ops._cuda_backward if direct else ops.softmax_backward
            return of(grad, y, ctx.dim, ctx.dtype)
        of = operators._cuda_backward if direct else operators.softmax_operator_backward
        return of(grad, y, ctx.dim, ctx.dtype, *ctx.options)
