"""The operators ``roofline::softmax`` and ``roofline::softmax_backward`` of PyTorch's dispatcher.

They take any dimension and any strides; what they give is new and contiguous, as torch.softmax's.
torch computes what no kernel serves: so a program that was traced for one GPU runs anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from kernels.frontier import backward, columns, frontier
from kernels.frontier.rows import as_rows

MOST_COLS = 2**31 - 1  # of a row: kernels count them in 32 bits
OLDEST = (8, 0)  # Ampere: before it, warps do not reduce integers by hardware

torch.library.define(
    "roofline::softmax",
    "(Tensor x, int dim, ScalarType? dtype, bool invariant) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
torch.library.define(
    "roofline::softmax_backward",
    "(Tensor grad, Tensor y, int dim, ScalarType input_dtype) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
softmax = torch.ops.roofline.softmax.default
softmax_backward = torch.ops.roofline.softmax_backward.default


@cache
def served(device: int) -> bool:
    """Whether the kernels run on this GPU."""
    return torch.version.cuda is not None and torch.cuda.get_device_capability(device) >= OLDEST


def into(x: Tensor, dim: int, out: Tensor, invariant: bool) -> Tensor:
    """The softmax of ``x`` into ``out``, of its shape and dtype, by a kernel.

    They are one tensor or do not overlap.
    """
    if not invariant and columns.takes(x, dim, out):
        return columns.softmax(x, dim, out)
    return by_rows(lambda x, out: frontier.softmax(x, out, invariant), out, dim, x)


def by_rows(compute: Callable[..., Tensor], out: Tensor, dim: int, *tensors: Tensor) -> Tensor:
    """``compute(*tensors, out)`` with ``dim`` as the last, where need be by way of copies."""
    if out.dim() > 0:
        tensors, to = tuple(t.movedim(dim, -1) for t in tensors), out.movedim(dim, -1)
    else:
        to = out
    rows = [t if as_rows(t.shape, t.stride()) else t.contiguous() for t in tensors]
    if as_rows(to.shape, to.stride()):
        compute(*rows, to)
    else:
        to.copy_(compute(*rows, new(to)))
    return out


def new(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A contiguous tensor of the shape of ``x``, without values."""
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


def serves(x: Tensor, dim: int, dtype: torch.dtype) -> bool:
    """Whether a kernel computes the softmax of ``x`` in ``dtype``."""
    cols = x.shape[dim] if x.dim() else 1
    return dtype in frontier.NAMES and cols <= MOST_COLS and served(x.get_device())


def _cuda(x: Tensor, dim: int, dtype: torch.dtype | None, invariant: bool) -> Tensor:
    if not serves(x, dim, dtype or x.dtype):
        return _torch(x, dim, dtype, invariant)
    x = x.to(dtype or x.dtype)
    return into(x, dim, new(x), invariant)


def _torch(x: Tensor, dim: int, dtype: torch.dtype | None, invariant: bool) -> Tensor:
    return torch.softmax(x, dim, dtype=dtype)


def _fake(x: Tensor, dim: int, dtype: torch.dtype | None, invariant: bool) -> Tensor:
    return new(x, dtype)


def _cuda_backward(grad: Tensor, y: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    if not serves(y, dim, y.dtype):
        return _torch_backward(grad, y, dim, input_dtype)
    return by_rows(backward.softmax_backward, new(y), dim, grad.to(y.dtype), y).to(input_dtype)


def _torch_backward(grad: Tensor, y: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    return torch.ops.aten._softmax_backward_data(grad, y, dim, y.dtype).to(input_dtype)


def _fake_backward(grad: Tensor, y: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    return new(y, input_dtype)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, ctx.dim, _, _ = inputs
    ctx.dtype = x.dtype
    ctx.save_for_backward(output)


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
    (y,) = ctx.saved_tensors
    return softmax_backward(grad, y, ctx.dim, ctx.dtype), None, None, None


def _keep_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, y, ctx.dim, _ = inputs
    ctx.save_for_backward(grad, y)


def _second_gradient(ctx: Any, v: Tensor) -> tuple[Tensor, Tensor, None, None]:
    """By torch, in float32 at least: of dx = y (g - sum(g y)), with respect to g and to y."""
    grad, y = ctx.saved_tensors
    wide = torch.promote_types(y.dtype, torch.float32)
    g, p, w = grad.to(wide), y.to(wide), v.to(wide)
    both = (g * p).sum(ctx.dim, keepdim=True), (w * p).sum(ctx.dim, keepdim=True)
    of_y = w * (g - both[0]) - g * both[1]
    return (p * (w - both[1])).to(grad.dtype), of_y.to(y.dtype), None, None


def _batched(
    info: Any, in_dims: tuple[Any, ...], x: Tensor, dim: int, dtype: torch.dtype | None,
    invariant: bool,
) -> tuple[Tensor, int]:  # fmt: skip
    (x,), scalars = batch_first(info, in_dims, x)
    y = softmax(x, dim if dim < 0 else dim + 1, dtype, invariant)
    return (y.squeeze(1) if scalars else y), 0


def _batched_backward(
    info: Any, in_dims: tuple[Any, ...], grad: Tensor, y: Tensor, dim: int,
    input_dtype: torch.dtype,
) -> tuple[Tensor, int]:  # fmt: skip
    (grad, y), scalars = batch_first(info, in_dims, grad, y)
    x = softmax_backward(grad, y, dim if dim < 0 else dim + 1, input_dtype)
    return (x.squeeze(1) if scalars else x), 0


def batch_first(
    info: Any, in_dims: tuple[Any, ...], *tensors: Tensor
) -> tuple[tuple[Tensor, ...], bool]:
    """The tensors with their batch in front; where they are scalars, with a column."""
    first = tuple(
        t.expand(info.batch_size, *t.shape) if at is None else t.movedim(at, 0)
        for t, at in zip(tensors, in_dims, strict=False)
    )
    if first[0].dim() > 1:
        return first, False
    return tuple(t.unsqueeze(1) for t in first), True


torch.library.impl("roofline::softmax", "cuda", _cuda)
torch.library.impl("roofline::softmax", "cpu", _torch)
torch.library.register_fake("roofline::softmax", _fake)
torch.library.register_autograd("roofline::softmax", _gradient, setup_context=_keep)
torch.library.register_vmap("roofline::softmax", _batched)
# As torch.softmax: under autocast, 16 bits are computed in float32.
torch.library.register_autocast("roofline::softmax", "cuda", torch.float32)
torch.library.impl("roofline::softmax_backward", "cuda", _cuda_backward)
torch.library.impl("roofline::softmax_backward", "cpu", _torch_backward)
torch.library.register_fake("roofline::softmax_backward", _fake_backward)
torch.library.register_autograd(
    "roofline::softmax_backward", _second_gradient, setup_context=_keep_backward
)
torch.library.register_vmap("roofline::softmax_backward", _batched_backward)
