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
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from kernels import operators, ops
from kernels.frontier import backward, columns, frontier
from kernels.frontier.backward import Gradient
from kernels.frontier.operators import MOST_ROWS, Operator
from kernels.frontier.plans import VECTOR_BYTES
from kernels.frontier.rows import as_rows
from kernels.prepared import Launch, known, launch
from kernels.transforms import applied
from kernels.unwatched import dense, observed

# As fields of Asked, which takes longer to make.
Call = tuple[bool, int, torch.dtype | None, bool, float, bool, float]


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


def again(x: Tensor, out: Tensor | None, mask: Tensor | None, call: Call) -> Tensor | None:
    """The result by the launch that ``first`` made for such tensors; None where there is none."""
    source, to = x.data_ptr(), 0 if out is None else out.data_ptr()
    ready = kept(x, source, out, to, mask, call)
    if ready is None:
        return None
    if out is None:
        y = _new(x)
        to = y.data_ptr()
    elif _apart(x, source, out, to, mask):
        y = _written(out)
    else:
        return None
    stream = torch._C._cuda_getCurrentRawStream(x.get_device())
    if mask is None:
        ready(stream, source, to)
    else:
        ready(stream, source, to, mask.data_ptr())
    return y


def kept(
    x: Tensor, source: int, out: Tensor | None, to: int, mask: Tensor | None, call: Call
) -> Launch | None:  # fmt: skip
    """The launch that ``first`` made for such tensors at ``source`` and ``to``; None if none.

    What has one needs no checks: the key holds all that they look at, but for who sees the call,
    and for types, since True, 1 and 1.0 are one key.
    """
    _, dim, _, invariant, scale, is_causal, factor = call
    if not (
        type(dim) is int
        and type(invariant) is type(is_causal) is bool
        and type(scale) is type(factor) is float
    ):
        return None
    try:
        return known(x.get_device(), _key(x, source, out, to, mask, call))
    except TypeError:  # of what is no argument of a softmax; it is told of elsewhere
        return None


def first(x: Tensor, out: Tensor | None, mask: Tensor | None, call: Call) -> Tensor | None:
    """The result by one kernel, whose launch is kept; None where tensors have to be copied."""
    asked = Asked(*call)
    if asked.dtype not in (None, x.dtype) or x.numel() == 0:
        return None
    source, y = x.data_ptr(), ops.new(x) if out is None else out
    to = y.data_ptr()
    if out is not None and not _apart(x, source, out, to, mask):
        return None
    if (prepare := _one_launch(x, y, mask, asked)) is None:
        return None
    pointers = (source, to) if mask is None else (source, to, mask.data_ptr())
    launch(x.get_device(), _key(x, source, out, to, mask, call), prepare, *pointers)
    return y if out is None else _written(out)


def _key(
    x: Tensor, source: int, out: Tensor | None, to: int, mask: Tensor | None, call: Call
) -> tuple[Any, ...]:  # fmt: skip
    """What a launch depends on: how tensors lie, and what is asked."""
    key = x.dtype, x.shape, x.stride(), x.get_device(), source % frontier.LINE_BYTES, call
    if out is not None:
        key = *key, out.dtype, out.shape, out.stride(), out.get_device(), to % VECTOR_BYTES
    if mask is not None:
        key = *key, mask.dtype, mask.shape, mask.stride(), mask.get_device()
    return key


def _apart(x: Tensor, source: int, out: Tensor, to: int, mask: Tensor | None) -> bool:
    """Whether a kernel may write to ``out`` while it reads ``x`` and ``mask``.

    It is ``x`` itself, or lies in another storage; and in another than the mask, whose elements
    may be those of other rows.
    """
    if mask is not None and _share_memory(mask, out):
        return False
    return (source == to and x.stride() == out.stride()) or not _share_memory(x, out)


def _share_memory(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors lie in one storage."""
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _new(x: Tensor) -> Tensor:
    """A contiguous tensor as ``x``; CUDA memory begins on a boundary of 256 bytes or more."""
    return torch.empty_like(x) if x.is_contiguous() else ops.new(x)


def _written(out: Tensor) -> Tensor:
    """``out``; whoever saved it for a gradient is told."""
    torch._C._increment_version((out,))
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
    """The same with a gradient of the tensor, not of its mask; called as ``differentiated``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, given: tuple[Tensor | None, Call, Launch | None]) -> Tensor:
        mask, call, ready = given
        if ready is None:
            y = first(x, None, mask, call)
        else:
            y = _new(x)
            beside = () if mask is None else (mask.data_ptr(),)
            stream = torch._C._cuda_getCurrentRawStream(x.get_device())
            ready(stream, x.data_ptr(), y.data_ptr(), *beside)
        log, dim, dtype, invariant, scale, is_causal, factor = call
        if y is None:
            y = operators.softmax_operator(
                x, mask, dim, dtype, log, float(scale), float(factor), is_causal, invariant
            )
        ctx.dim, ctx.dtype = dim, x.dtype
        masked = mask is not None or is_causal
        plain = not (log or masked) and scale == factor == 1.0
        ctx.of = None if plain else Gradient(log, scale, factor, masked)
        ctx.save_for_backward(y, operators.boolean(mask))
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        y, mask = ctx.saved_tensors
        return operators.hidden(_of_x(grad, y, ctx.dim, ctx.dtype, ctx.of), mask), None


def _of_x(grad: Tensor, y: Tensor, dim: int, dtype: torch.dtype, of: Gradient | None) -> Tensor:
    """The gradient of what ``y`` is the result of, but for what a mask hides."""
    if forward_ad._current_level >= 0:  # operators of our own would drop a tangent
        told: Gradient = of or Gradient(False, 1.0, 1.0, False)
        return operators.composed_backward(grad, y, dim, dtype, *told)
    # Of a gradient that is differentiated itself, or is no plain tensor, the operator knows.
    direct = not (is_compiling() or torch.is_grad_enabled() or observed()) and dense(grad)
    if (
        direct
        and dim in (-1, y.dim() - 1)
        and y.dtype == grad.dtype == dtype
        and grad.is_contiguous()
        and y.is_contiguous()
        and (of is None or of.factor != 0.0)
        and ops.serves(y, -1, dtype)
    ):
        return backward.softmax_backward(grad, y, torch.empty_like(y), of)
    if of is None:
        gradient = ops._cuda_backward if direct else ops.softmax_backward
        return gradient(grad, y, dim, dtype)
    gradient = operators._cuda_backward if direct else operators.softmax_operator_backward
    return gradient(grad, y, dim, dtype, *of)


differentiated = applied(Differentiated)
