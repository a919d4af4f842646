"""``cross_entropy``: torch.nn.functional.cross_entropy of classes by the frontier's kernels.

Its module is not named as the function, which an import of it would hide in ``kernels``.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from kernels import cross_entropy_ops as ops
from kernels.arguments import (
    check_finite,
    check_flags,
    check_floating,
    check_int,
    check_number,
    check_tensor,
    told,
)
from kernels.frontier import frontier
from kernels.frontier.cross_entropy import Terms
from kernels.frontier.rows import as_rows
from kernels.transforms import applied, batched, transformed
from kernels.unwatched import dense, traced

REDUCTIONS = ("none", "mean", "sum")


def cross_entropy(
    input: Tensor, target: Tensor, *, ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0, z_loss: float = 0.0, return_lse: bool = False,
    inplace: bool = False, check: bool = False, weight: None = None,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """The cross-entropy of logits ``input`` (..., classes) with the classes ``target`` (...).

    As torch.nn.functional.cross_entropy's of rows, but classes are the last dimension and have no
    ``weight``, ``target`` may be int32 as well as int64, and the loss is float32, of float64 logits
    float64. On CUDA float16, bfloat16 and float32 go through this project's kernels, everything
    else through torch (with one warning a process where there is no CUDA GPU). It works under
    torch.compile and in CUDA graphs.

    z_loss      adds z_loss * lse**2 to every row that counts, lse being its log-sum-exp
    return_lse  gives (loss, lse), lse of the loss's dtype and target's shape, without a gradient
    inplace     the gradient may overwrite ``input``, whose logits are then gone for whoever else
                has them: for an input that nobody else needs, which is no leaf, and mean or sum
    check       waits for the GPU, and raises IndexError for the first target that is no class,
                before anything is written; without it such a row's loss and gradient are NaN. Not
                while a graph is captured or compiled. Of a plain call on the CPU it is always told

    With a mean or a sum the gradient is computed with the loss, for a loss that is the last: its
    own gradient, if not 1, is multiplied in afterwards, once: a second backward pass raises
    RuntimeError. Otherwise (``none``, float16, whose last gradient is mostly a scale, and under
    torch.compile) the backward pass computes it from ``input``, as often as asked for.

    Raises TypeError for other dtypes than float16, bfloat16, float32 and float64 of logits or int32
    and int64 of classes and for arguments of other types, ValueError for shapes, devices and
    numbers that do not fit, IndexError as ``check`` says, RuntimeError where ``inplace`` or
    ``check`` cannot be.

    Moves MN elements for M rows of N classes, with the gradient 2MN, which times their size are
    the bytes, and at most 16 bytes a row; where the backward pass computes the gradient, and for
    rows that no cluster holds, 3MN in all.
    """
    if weight is not None:
        raise ValueError(
            f"cross_entropy has no weight for a class; got {told(weight)}: weigh the losses of "
            'reduction="none", or take torch.nn.functional.cross_entropy'
        )
    _checked(input, target, ignore_index, reduction)
    _check_options(label_smoothing, z_loss, return_lse=return_lse, inplace=inplace, check=check)
    if inplace:
        _check_inplace(input, reduction)
    terms = Terms(int(ignore_index), float(label_smoothing), float(z_loss), return_lse)
    compiling = torch.compiler.is_compiling()
    if check or _ready(target):
        _check(input, target, terms.ignore_index, compiling)
    if not _by_kernel(input) or transformed():
        if not compiling and not torch.cuda.is_available():
            _warn_once()
        loss, lse = ops.by_torch(input, target, terms)
        if reduction == "mean":
            loss = loss.sum() / (target != terms.ignore_index).sum()
        elif reduction == "sum":
            loss = loss.sum()
        return (loss, lse.detach()) if return_lse else loss
    early, share = not compiling and _early(input, target, reduction, inplace), None
    if reduction == "mean":
        weigh = ops._cuda_targets if early else ops.cross_entropy_targets
        share, _ = weigh(target, input.shape[-1], terms.ignore_index)
    if early:
        loss, lse = _with_gradient(input, (target, share, terms, inplace))
        return (loss, lse) if return_lse else loss
    loss, lse = ops.cross_entropy(
        input, target, terms.ignore_index, terms.label_smoothing, terms.z_loss, return_lse
    )
    if reduction != "none":
        loss = loss.sum()
    if share is not None:
        loss = loss * share
    return (loss, lse) if return_lse else loss


class _WithGradient(torch.autograd.Function):
    """The sum of the losses, or with a ``weight`` that times it, and the gradient kept for it."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, call: tuple[Tensor, Tensor | None, Terms, bool]
    ) -> tuple[Tensor, Tensor]:
        target, weight, terms, inplace = call
        if inplace:
            grad = input.detach()
        else:
            grad = torch.empty_like(input, memory_format=torch.contiguous_format)
        loss, lse = ops.into(input, target, weight, terms, grad)
        if inplace:
            torch.autograd.graph.increment_version(input)  # whoever saved it is told
        ctx.grad, ctx.version = grad, grad._version
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)  # no zeros are launched for that of the lse
        total = loss.sum()
        return (total if weight is None else total * weight), lse

    @staticmethod
    def backward(ctx: Any, of_loss: Tensor | None, _: None) -> tuple[Tensor | None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if of_loss is None:  # what was made of the loss has no gradient
            return None, None
        # The wrapper matters to gradients of gradients alone, and takes longer than the launch.
        gradient = _WithGradient.gradient
        if torch.is_grad_enabled():
            gradient = once_differentiable(gradient)
            # What is made of it is refused too where the loss's gradient is a number.
            of_loss = of_loss if of_loss.requires_grad else of_loss.detach().requires_grad_()
        return gradient(ctx, of_loss)

    @staticmethod
    def gradient(ctx: Any, of_loss: Tensor) -> tuple[Tensor, None]:
        """Of the logits, from that ``of_loss``."""
        grad, ctx.grad = ctx.grad, None
        if grad is None:
            raise RuntimeError(
                "cross_entropy hands its gradient out once, and this is a second backward pass: "
                "call it again, or with reduction='none', whose backward pass computes it anew"
            )
        if grad._version != ctx.version:
            raise RuntimeError(
                "the input of cross_entropy(inplace=True), which holds its gradient, was modified "
                "before the backward pass: leave inplace=True away"
            )
        ops.scale(grad, of_loss)
        return grad, None


_with_gradient = applied(_WithGradient)


def _by_kernel(input: Tensor) -> bool:
    return input.is_cuda and input.dtype in frontier.NAMES


def _early(input: Tensor, target: Tensor, reduction: str, inplace: bool) -> bool:
    """Whether the gradient is computed with the loss."""
    return (
        torch.is_grad_enabled()
        and input.requires_grad
        and reduction != "none"
        and (inplace or input.dtype != torch.float16)
        and dense(input)
        and dense(target)
        and not traced()
        and ops.serves(input, -1, input.dtype)
    )


def _ready(target: Tensor) -> bool:
    """Whether targets can be looked at without a wait, and by nobody else: memory of the CPU."""
    return (
        target.is_cpu
        and not torch.compiler.is_compiling()
        and type(target) is Tensor
        and not transformed()
        and not traced()
    )


def _check(input: Tensor, target: Tensor, ignore_index: int, compiling: bool) -> None:
    """Raise IndexError for the first target that is no class."""
    captured = input.is_cuda and torch.cuda.is_current_stream_capturing()
    if compiling or captured or batched() or input.is_meta:
        raise RuntimeError(
            "cross_entropy(check=True) looks at the targets, which a graph that is captured or "
            "compiled, torch.vmap and meta tensors do not show: leave check=True away; rows of "
            "wrong targets get NaN"
        )
    classes = input.shape[-1]
    place = int(ops.cross_entropy_targets(target, classes, ignore_index)[1].item())
    if place >= 0:
        raise IndexError(
            f"cross_entropy expects targets from 0 to {classes - 1}, or ignore_index="
            f"{ignore_index}; got {target.reshape(-1)[place].item()} in row {place}"
        )


def _check_options(label_smoothing: float, z_loss: float, **flags: bool) -> None:
    """Raise an error that says what is wrong with a number or a flag."""
    check_flags("cross_entropy", **flags)
    check_finite("cross_entropy", z_loss=z_loss)
    check_number("cross_entropy", "label_smoothing", label_smoothing)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(
            f"cross_entropy expects a label_smoothing from 0 to 1; got {told(label_smoothing)}"
        )


def _checked(input: Tensor, target: Tensor, ignore_index: int, reduction: str) -> None:
    """Raise an error that says what is wrong."""
    check_tensor("cross_entropy", "input", input)
    check_tensor("cross_entropy", "target", target)
    check_floating("cross_entropy", input.dtype, "input.float()")
    if target.dtype not in (torch.int32, torch.int64):
        whole = not (target.is_floating_point() or target.is_complex())
        raise TypeError(
            f"cross_entropy expects classes as int32 or int64 in target; got {target.dtype}: "
            + (
                "pass target.long()" if whole
                else "for probabilities take torch.nn.functional.cross_entropy"
            )
        )  # fmt: skip
    as_torch = input.dim() > 2 and input.shape[:1] + input.shape[2:] == target.shape
    if input.dim() == 0 or input.shape[:-1] != target.shape or input.shape[-1] == 0:
        raise ValueError(
            "cross_entropy expects input (..., classes), of a class at least, and target (...); "
            f"got {tuple(input.shape)} and {tuple(target.shape)}"
            f"{': pass input.movedim(1, -1)' if as_torch else ''}"
        )
    if as_torch and not torch.compiler.is_compiling():
        _warn_of_order()
    if input.device != target.device:
        raise ValueError(
            f"cross_entropy expects input and target on one device; got {input.device} and "
            f"{target.device}: pass target.to(input.device)"
        )
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        raise ValueError(f"cross_entropy knows the reductions {REDUCTIONS}; got {told(reduction)}")
    check_int("cross_entropy", "ignore_index", ignore_index)
    if not -(2**63) <= ignore_index < 2**63:
        raise ValueError(
            f"cross_entropy expects an ignore_index of 64 bits; got {told(ignore_index)}"
        )


@cache
def _warn_of_order() -> None:
    warnings.warn(
        "cross_entropy takes the last dimension of input as that of classes, where torch takes the "
        "second, and target fits both: pass input.movedim(1, -1) for torch's",
        stacklevel=4,
    )


def _check_inplace(input: Tensor, reduction: str) -> None:
    if reduction == "none":
        raise ValueError(
            "cross_entropy(inplace=True) expects reduction 'mean' or 'sum'; got 'none'"
        )
    if not (torch.is_grad_enabled() and input.requires_grad):
        return  # nothing is written
    if input.is_leaf:
        raise RuntimeError(
            "cross_entropy(inplace=True) would overwrite a leaf that requires a gradient: leave "
            "inplace=True away"
        )
    rows = as_rows(input.shape, input.stride())
    if rows is None or (rows.rows > 1 and rows.stride < rows.cols):
        raise ValueError(
            "cross_entropy(inplace=True) expects rows at even distances, of elements side by side; "
            f"got shape {tuple(input.shape)} with strides {input.stride()}: leave inplace=True away"
        )


@cache
def _warn_once() -> None:
    warnings.warn("cross_entropy found no CUDA GPU, so torch computes it", stacklevel=3)
