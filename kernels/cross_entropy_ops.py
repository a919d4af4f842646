"""The operators ``roofline::cross_entropy*`` of PyTorch's dispatcher.

``cross_entropy`` gives the loss and the lse of every row, ``cross_entropy_grad`` the gradient of
the losses times a weight beside them, ``cross_entropy_targets`` what the mean and the check of
targets need. Logits are (..., classes), in any memory; torch computes what no kernel serves.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kernels.frontier import cross_entropy as kernels
from kernels.frontier.cross_entropy import Terms
from kernels.frontier.rows import as_rows
from kernels.ops import serves

_TERMS = "int ignore_index, float label_smoothing, float z_loss, bool every"
for _name, _schema in {
    "cross_entropy": f"(Tensor input, Tensor target, {_TERMS}) -> (Tensor, Tensor)",
    "cross_entropy_grad": (
        f"(Tensor input, Tensor target, Tensor? weight, {_TERMS}) -> (Tensor, Tensor, Tensor)"
    ),
    "cross_entropy_targets": (
        "(Tensor target, int classes, int ignore_index) -> (Tensor weight, Tensor wrong)"
    ),
}.items():
    torch.library.define(f"roofline::{_name}", _schema, tags=(torch.Tag.pt2_compliant_tag,))
cross_entropy = torch.ops.roofline.cross_entropy.default
cross_entropy_grad = torch.ops.roofline.cross_entropy_grad.default
cross_entropy_targets = torch.ops.roofline.cross_entropy_targets.default


def wide(dtype: torch.dtype) -> torch.dtype:
    """Of losses of logits of ``dtype``: float32, or float64."""
    return torch.promote_types(dtype, torch.float32)


def into(
    input: Tensor, target: Tensor, weight: Tensor | None, terms: Terms, grad: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The losses and lses, with the gradient into ``grad`` if it is given, by a kernel.

    ``grad`` has rows at even distances; it is ``input`` or does not overlap it.
    """
    loss, lse = _columns(input, target)
    x = input if as_rows(input.shape, input.stride()) else input.contiguous()
    if weight is not None and weight.dim():
        # Of the weights that one number was expanded to that number is read.
        one = weight.numel() > 0 and not any(weight.stride())
        weight = weight.as_strided((), ()) if one else weight.contiguous()
    if weight is not None and weight.dtype != torch.float32:
        weight = weight.to(torch.float32)
    kernels.cross_entropy(x, target.contiguous(), terms, loss, lse, grad, weight)
    return loss, lse


def scale(grad: Tensor, factor: Tensor) -> None:
    """``grad`` times ``factor``, in place; where that is 1, nothing is moved."""
    kernels.scale(grad, factor)


def by_torch(input: Tensor, target: Tensor, terms: Terms) -> tuple[Tensor, Tensor]:
    """The losses and lses composed of torch's functions, with all their gradients.

    A row whose target is no class has NaN for its loss and gradient, as a kernel gives it.
    """
    x, classes = input.to(wide(input.dtype)), input.shape[-1]
    counts, wrong = _told_apart(target, classes, terms.ignore_index)
    rows, given = x.reshape(-1, classes), torch.where(wrong, 0, target).reshape(-1).long()
    loss = functional.cross_entropy(
        rows, given, ignore_index=terms.ignore_index, reduction="none",
        label_smoothing=terms.label_smoothing,
    ).view(target.shape)  # fmt: skip
    lse = torch.logsumexp(x, -1)
    if terms.z_loss:
        loss = loss + torch.where(counts, terms.z_loss * lse.square(), 0.0)
    loss = loss * torch.where(wrong, torch.nan, 1.0).to(loss.dtype)
    return loss, lse if terms.every else torch.where(counts, lse, 0.0)


def _told_apart(target: Tensor, classes: int, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Which targets count, and which of these are no class."""
    counts = target != ignore_index
    return counts, counts & ((target < 0) | (target >= classes))


def _columns(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    loss = target.new_empty(target.shape, dtype=wide(input.dtype))
    return loss, torch.empty_like(loss)


def _new(input: Tensor) -> Tensor:
    return torch.empty_like(input, memory_format=torch.contiguous_format)


def _cuda(input: Tensor, target: Tensor, *terms: Any) -> tuple[Tensor, Tensor]:
    if not serves(input, -1, input.dtype):
        return by_torch(input, target, Terms(*terms))
    return into(input, target, None, Terms(*terms), None)


def _torch(input: Tensor, target: Tensor, *terms: Any) -> tuple[Tensor, Tensor]:
    return by_torch(input, target, Terms(*terms))


def _fake(input: Tensor, target: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _columns(input, target)


def _cuda_grad(
    input: Tensor, target: Tensor, weight: Tensor | None, *terms: Any
) -> tuple[Tensor, Tensor, Tensor]:
    if not serves(input, -1, input.dtype):
        return _torch_grad(input, target, weight, *terms)
    grad = _new(input)
    return *into(input, target, weight, Terms(*terms), grad), grad


def _torch_grad(
    input: Tensor, target: Tensor, weight: Tensor | None, *terms: Any
) -> tuple[Tensor, Tensor, Tensor]:
    loss, lse = by_torch(input, target, Terms(*terms))
    grad = _slope(input, target, Terms(*terms))
    if weight is not None:
        grad = torch.where(_counts(target, terms), grad * weight[..., None], 0.0)
    return loss, lse, grad.to(input.dtype).contiguous()


def _counts(target: Tensor, terms: tuple[Any, ...]) -> Tensor:
    return (target != terms[0])[..., None]


def _slope(input: Tensor, target: Tensor, terms: Terms) -> Tensor:
    """The gradient of the losses, in ``wide``."""
    x, classes = input.to(wide(input.dtype)), input.shape[-1]
    counts, wrong = (t[..., None] for t in _told_apart(target, classes, terms.ignore_index))
    column = torch.where(counts & ~wrong, target[..., None], 0).long()
    more = 1.0
    if terms.z_loss:
        more = 1.0 + 2.0 * terms.z_loss * torch.logsumexp(x, -1, keepdim=True)
    one = torch.zeros_like(x).scatter(-1, column, 1.0 - terms.label_smoothing)
    grad = torch.softmax(x, -1) * more - one - terms.label_smoothing / max(1, classes)
    return torch.where(counts, torch.where(wrong, torch.nan, grad), 0.0)


def _fake_grad(
    input: Tensor, target: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return *_columns(input, target), _new(input)


def _cuda_targets(target: Tensor, classes: int, ignore_index: int) -> tuple[Tensor, Tensor]:
    if target.dtype not in (torch.int32, torch.int64):
        return _torch_targets(target, classes, ignore_index)
    weight, wrong = _fake_targets(target, classes, ignore_index)
    kernels.targets(target.contiguous(), classes, ignore_index, weight, wrong)
    return weight, wrong


def _torch_targets(target: Tensor, classes: int, ignore_index: int) -> tuple[Tensor, Tensor]:
    counts, wrong = (t.reshape(-1) for t in _told_apart(target, classes, ignore_index))
    place = torch.arange(1, target.numel() + 1, device=target.device)
    last = torch.full((1,), target.numel() + 1, device=target.device)
    first = torch.cat((torch.where(wrong, place, last), last)).min()
    return counts.sum().to(torch.float32).reciprocal(), torch.where(first == last[0], -1, first - 1)


def _fake_targets(target: Tensor, classes: int, ignore_index: int) -> tuple[Tensor, Tensor]:
    return target.new_empty((), dtype=torch.float32), target.new_empty((), dtype=torch.int64)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    input, target, *ctx.terms = inputs
    ctx.save_for_backward(input, target)
    ctx.mark_non_differentiable(output[1])


def _gradient(ctx: Any, loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    input, target = ctx.saved_tensors
    terms = (*ctx.terms[:3], False)
    return cross_entropy_grad(input, target, loss, *terms)[2], *[None] * 5


def _keep_grad(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    input, target, weight, *ctx.terms = inputs
    ctx.weighted = weight is not None
    ctx.save_for_backward(input, target, *([weight] * ctx.weighted))
    ctx.mark_non_differentiable(output[1])


def _second_gradient(
    ctx: Any, of_loss: Tensor, _: Tensor, v: Tensor
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """By torch, in float32 at least: of the losses, and of weight * their gradient.

    The latter is weight * (p a - constants) with a = 1 + 2 z lse, whose derivatives are those of a
    softmax p and of lse, p.
    """
    input, target, *weights = ctx.saved_tensors
    terms = Terms(*ctx.terms)
    slope = _slope(input, target, terms)
    counts, v = _counts(target, tuple(ctx.terms)), v.to(slope.dtype)
    x = input.to(slope.dtype)
    p, lse = torch.softmax(x, -1), torch.logsumexp(x, -1, keepdim=True)
    both = (v * p).sum(-1, keepdim=True)
    second = p * ((1.0 + 2.0 * terms.z_loss * lse) * (v - both) + 2.0 * terms.z_loss * both)
    of_weight = None
    if ctx.weighted:
        (weight,) = weights
        second = second * weight[..., None]
        rows = (v * slope).sum(-1)
        of_weight = (rows if weight.dim() else rows.sum()).to(weight.dtype)
    of_input = torch.where(counts, second + of_loss[..., None] * slope, 0.0)
    return of_input.to(input.dtype), None, of_weight, *[None] * 4


for _name, _kernel, _fallback, _shapes in (
    ("cross_entropy", _cuda, _torch, _fake),
    ("cross_entropy_grad", _cuda_grad, _torch_grad, _fake_grad),
    ("cross_entropy_targets", _cuda_targets, _torch_targets, _fake_targets),
):
    torch.library.impl(f"roofline::{_name}", "cuda", _kernel)
    torch.library.impl(f"roofline::{_name}", "cpu", _fallback)
    torch.library.register_fake(f"roofline::{_name}", _shapes)
torch.library.register_autograd("roofline::cross_entropy", _gradient, setup_context=_keep)
torch.library.register_autograd(
    "roofline::cross_entropy_grad", _second_gradient, setup_context=_keep_grad
)
