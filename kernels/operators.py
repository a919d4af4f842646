"""``roofline::softmax_operator``: factors, masks and logarithms of a softmax, for PyTorch.

factor * softmax(scale * x + mask), or of the logarithm, along any dimension of any strides. torch
computes what no kernel serves. The gradient is one kernel of what the forward pass gave.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from kernels import ops
from kernels.frontier import backward, columns, frontier
from kernels.frontier.operators import MOST_ROWS, Causal, Matrix, Operator, matrix

torch.library.define(
    "roofline::softmax_operator",
    "(Tensor x, Tensor? mask, int dim, ScalarType? dtype, bool log, float scale, float factor, "
    "bool is_causal, bool invariant) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
torch.library.define(
    "roofline::softmax_operator_backward",
    "(Tensor grad, Tensor y, int dim, ScalarType input_dtype, bool log, float scale, float factor, "
    "bool masked) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
softmax_operator = torch.ops.roofline.softmax_operator.default
softmax_operator_backward = torch.ops.roofline.softmax_operator_backward.default


def composed(
    x: Tensor, mask: Tensor | None, dim: int, dtype: torch.dtype | None, log: bool, scale: float,
    factor: float, is_causal: bool, invariant: bool = False,
) -> Tensor:  # fmt: skip
    """The same by torch's operators; products are in float32 at least, as the kernels'."""
    kind = dtype or x.dtype
    wide = torch.promote_types(kind, torch.float32) if scale != 1.0 or factor != 1.0 else kind
    x = x.to(kind).to(wide)
    x = x if scale == 1.0 else x * scale
    if is_causal:
        mask = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).tril()
    if mask is not None and mask.dtype == torch.bool:
        x = x.masked_fill(~mask, -math.inf)
    elif mask is not None:
        x = (x + mask).to(kind).to(wide)
    y = torch.log_softmax(x, dim) if log else torch.softmax(x, dim)
    return (y if factor == 1.0 else y * factor).to(kind)


def _cuda(
    x: Tensor, mask: Tensor | None, dim: int, dtype: torch.dtype | None, log: bool, scale: float,
    factor: float, is_causal: bool, invariant: bool,
) -> Tensor:  # fmt: skip
    masked = mask is not None or is_causal
    served = ops.serves(x, dim, dtype or x.dtype) and 0.0 < scale < math.inf
    cols = x.shape[dim] if x.dim() else 1
    if not served or (masked and x.numel() > MOST_ROWS * cols):
        return composed(x, mask, dim, dtype, log, scale, factor, is_causal)
    x = x.to(dtype or x.dtype)
    lies = told(x, mask, dim, is_causal)
    if mask is not None and lies is None:
        mask = mask.expand(x.shape).contiguous()
        lies = told(x, mask, dim, is_causal)
    operator, out = Operator(log, scale, factor, lies), ops.new(x)
    if operator == Operator(log=True) and not invariant and columns.takes(x, dim, out):
        return columns.softmax(x, dim, out, log=True)
    return ops.by_rows(
        lambda x, out: frontier.softmax(x, out, invariant, operator=operator, mask=mask),
        out, dim, x,
    )  # fmt: skip


def told(x: Tensor, mask: Tensor | None, dim: int, is_causal: bool) -> Causal | Matrix | None:
    """What a kernel is told of the mask of ``x`` along ``dim``; None where it cannot be."""
    if is_causal:
        return Causal(x.shape[-2], 1)
    if mask is None:
        return None
    mask = mask.expand(x.shape).movedim(dim, -1) if x.dim() else mask.reshape(1)
    return matrix(mask.shape, mask.stride(), mask.dtype == torch.bool)


def _fake(
    x: Tensor, mask: Tensor | None, dim: int, dtype: torch.dtype | None, log: bool, scale: float,
    factor: float, is_causal: bool, invariant: bool,
) -> Tensor:  # fmt: skip
    return ops.new(x, dtype)


def composed_backward(
    grad: Tensor, y: Tensor, dim: int, input_dtype: torch.dtype, log: bool, scale: float,
    factor: float, masked: bool,
) -> Tensor:  # fmt: skip
    """The gradient by torch's operators, in float32 or wider."""
    wide = torch.promote_types(y.dtype, torch.float32)
    if factor == 0.0:  # nothing of the softmax is left in y, and no gradient comes through
        return torch.zeros_like(y, dtype=input_dtype)
    g, p = grad.to(wide) * factor, y.to(wide) / factor
    if not log:
        return (scale * p * (g - (g * p).sum(dim, keepdim=True))).to(input_dtype)
    dx = scale * (g - p.exp() * g.sum(dim, keepdim=True))
    return (dx.masked_fill(p == -math.inf, 0.0) if masked else dx).to(input_dtype)


def _cuda_backward(
    grad: Tensor, y: Tensor, dim: int, input_dtype: torch.dtype, log: bool, scale: float,
    factor: float, masked: bool,
) -> Tensor:  # fmt: skip
    if factor == 0.0 or not ops.serves(y, dim, y.dtype):
        return composed_backward(grad, y, dim, input_dtype, log, scale, factor, masked)
    of = backward.Gradient(log, scale, factor, masked)
    return ops.by_rows(
        lambda grad, y, out: backward.softmax_backward(grad, y, out, of),
        ops.new(y), dim, grad.to(y.dtype), y,
    ).to(input_dtype)  # fmt: skip


def _fake_backward(
    grad: Tensor, y: Tensor, dim: int, input_dtype: torch.dtype, *options: Any
) -> Tensor:
    return ops.new(y, input_dtype)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, mask, ctx.dim, _, ctx.log, ctx.scale, ctx.factor, is_causal, _ = inputs
    ctx.dtype, ctx.masked = x.dtype, mask is not None or is_causal
    ctx.mask = None if mask is None else (mask.shape, mask.dtype)
    ctx.save_for_backward(output, boolean(mask))


def boolean(mask: Tensor | None) -> Tensor | None:
    """The mask, if it is a boolean one: what it hides has no gradient."""
    return mask if mask is not None and mask.dtype == torch.bool else None


def hidden(of_x: Tensor, mask: Tensor | None) -> Tensor:
    """The gradient ``of_x`` where ``mask`` sees, else 0, as torch's masked_fill has it.

    Elsewhere it is 0 already, but for rows of which nothing is seen: they are NaN throughout.
    """
    return of_x if mask is None else of_x.masked_fill(~mask, 0.0)


def _gradient(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    y, mask = ctx.saved_tensors
    options = ctx.log, 1.0, ctx.factor, ctx.masked
    of_mask = None
    if ctx.needs_input_grad[1]:  # of what the scale does not touch, over what it was broadcast to
        shape, dtype = ctx.mask
        of_mask = softmax_operator_backward(grad, y, ctx.dim, y.dtype, *options)
        of_mask = of_mask.sum_to_size(shape).to(dtype)
    options = ctx.log, ctx.scale, ctx.factor, ctx.masked
    of_x = softmax_operator_backward(grad, y, ctx.dim, ctx.dtype, *options)
    return hidden(of_x, mask), of_mask, *(None,) * 7


def _keep_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, y, *ctx.options = inputs
    ctx.save_for_backward(grad, y)


def _second_gradient(ctx: Any, v: Tensor) -> tuple[Any, ...]:
    grad, y = (t.detach().requires_grad_() for t in ctx.saved_tensors)
    with torch.enable_grad():
        dx = composed_backward(grad, y, *ctx.options)
    return *torch.autograd.grad(dx, (grad, y), v, allow_unused=True), *(None,) * 6


def _batched(
    info: Any, in_dims: tuple[Any, ...], x: Tensor, mask: Tensor | None, dim: int, *options: Any
) -> tuple[Tensor, int]:
    x_dim, mask_dim = in_dims[:2]
    x = x.expand(info.batch_size, *x.shape) if x_dim is None else x.movedim(x_dim, 0)
    if mask is not None and mask_dim is not None:
        mask = mask.movedim(mask_dim, 0)
        mask = mask.reshape(len(mask), *[1] * (x.dim() - mask.dim()), *mask.shape[1:])
    if x.dim() == 1:  # of scalars: with a column
        mask = mask if mask is None or mask_dim is None else mask.reshape(-1, 1)
        return softmax_operator(x.unsqueeze(1), mask, 1, *options).squeeze(1), 0
    return softmax_operator(x, mask, dim if dim < 0 else dim + 1, *options), 0


def _batched_backward(
    info: Any, in_dims: tuple[Any, ...], grad: Tensor, y: Tensor, dim: int, *options: Any
) -> tuple[Tensor, int]:
    (grad, y), scalars = ops.batch_first(info, in_dims, grad, y)
    x = softmax_operator_backward(grad, y, dim if dim < 0 else dim + 1, *options)
    return (x.squeeze(1) if scalars else x), 0


torch.library.impl("roofline::softmax_operator", "cuda", _cuda)
torch.library.impl("roofline::softmax_operator", "cpu", composed)
torch.library.register_fake("roofline::softmax_operator", _fake)
torch.library.register_autograd("roofline::softmax_operator", _gradient, setup_context=_keep)
torch.library.register_vmap("roofline::softmax_operator", _batched)
torch.library.register_autocast("roofline::softmax_operator", "cuda", torch.float32)
torch.library.impl("roofline::softmax_operator_backward", "cuda", _cuda_backward)
torch.library.impl("roofline::softmax_operator_backward", "cpu", composed_backward)
torch.library.register_fake("roofline::softmax_operator_backward", _fake_backward)
torch.library.register_autograd(
    "roofline::softmax_operator_backward", _second_gradient, setup_context=_keep_backward
)
torch.library.register_vmap("roofline::softmax_operator_backward", _batched_backward)
