"""``topk_softmax``: the k largest probabilities of each row, and the operator behind it."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from kernels import ops
from kernels.arguments import check_floating, check_int, check_tensor, either, told
from kernels.frontier import choice
from kernels.frontier.choice_plans import MOST_TOP
from kernels.frontier.rows import as_rows
from kernels.outputs import TopK
from kernels.transforms import differentiated

torch.library.define(
    "roofline::topk_softmax",
    "(Tensor x, SymInt k, bool whole) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
operator = torch.ops.roofline.topk_softmax.default


def topk_softmax(
    x: Tensor | None = None, k: int | None = None, *,
    normalize: Literal["all", "topk"] = "all", input: Tensor | None = None,
) -> TopK:  # fmt: skip
    """The ``k`` largest probabilities of the softmax of each row of ``x`` (M, N), and where.

    Gives ``values`` (M, k) in x's dtype, in descending order, and ``indices`` (M, k), int64. Which
    they are is decided by ``x``, exactly, and not by probabilities that may have been rounded to be
    equal: of equal elements the one with the lower index comes first, -0 equals 0, and NaN is the
    largest, as torch.topk has it. A row whose softmax is NaN throughout has NaN as its values.

    normalize  "all" divides by the sum over the row (softmax, then topk), "topk" by the sum over
               the k that are given (topk, then softmax)
    input      torch's name for ``x``

    float16, bfloat16 and float32 go through this project's kernels on CUDA, everything else
    through torch, as do derivatives in forward mode and of torch.func. Values have gradients.

    Raises TypeError for what is no tensor of strides, for other dtypes than these and float64 and
    for arguments of other types, ValueError for another shape, another ``k`` than 1 ...
    min(N, 128), or another ``normalize``.

    Moves MN elements, which times their size are the bytes, and k elements and k times
    8 bytes a row; each part of a row leaves k times 8 bytes more, which are read again. torch sorts
    each row. The gradient is torch's operators', with intermediates of MN elements.
    """
    return _topk(either("topk_softmax", x, input), k, normalize)


def _topk(x: Any, k: Any, normalize: Any) -> TopK:
    check_tensor("topk_softmax", "x", x)
    check_floating("topk_softmax", x.dtype, "x.float()")
    if x.dim() != 2:
        way = "x.flatten(0, -2)" if x.dim() > 2 else "x.reshape(1, -1)"
        raise ValueError(
            f"topk_softmax expects rows (M, N); got shape {tuple(x.shape)}: pass {way}"
        )
    check_int("topk_softmax", "k", k)
    if k < 1 or k > x.shape[1]:
        raise ValueError(
            f"topk_softmax expects k from 1 to the {x.shape[1]} columns; got {told(k)}"
        )
    if k > MOST_TOP:
        raise ValueError(
            f"topk_softmax expects k of at most {MOST_TOP}; got {told(k)}: for more use "
            "torch.topk(torch.softmax(x, -1), k)"
        )
    if not isinstance(normalize, str) or normalize not in ("all", "topk"):
        raise ValueError(f'topk_softmax expects normalize="all" or "topk"; got {told(normalize)}')
    return TopK(*(_torch if differentiated() else operator)(x, k, normalize == "all"))


def _cuda(x: Tensor, k: int, whole: bool) -> tuple[Tensor, Tensor]:
    if not ops.serves(x, -1, x.dtype):
        return _torch(x, k, whole)
    x = x if as_rows(x.shape, x.stride()) else x.contiguous()
    values, indices = _fake(x, k, whole)
    choice.topk_softmax(x, k, whole, values, indices)
    return values, indices


def _torch(x: Tensor, k: int, whole: bool) -> tuple[Tensor, Tensor]:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    top, indices = torch.sort(wide, dim=-1, descending=True, stable=True)
    top, indices = top[:, :k], indices[:, :k].contiguous()
    p = torch.softmax(wide, -1).gather(-1, indices) if whole else torch.softmax(top, -1)
    return p.to(x.dtype), indices


def _fake(x: Tensor, k: int, whole: bool) -> tuple[Tensor, Tensor]:
    shape = x.shape[0], k
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, _, ctx.whole = inputs
    ctx.save_for_backward(x, *output)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Tensor | None, None, None]:
    """By way of the whole row, in float32 at least."""
    x, values, indices = ctx.saved_tensors
    if grad is None:
        return None, None, None
    wide = torch.promote_types(x.dtype, torch.float32)
    grad = grad.to(wide)
    if ctx.whole:
        of_row = torch.zeros_like(x, dtype=wide).scatter(-1, indices, grad)
        y = torch.softmax(x.to(wide), -1)
        return (y * (of_row - (of_row * y).sum(-1, keepdim=True))).to(x.dtype), None, None
    y = values.to(wide)
    of_top = y * (grad - (grad * y).sum(-1, keepdim=True))
    return torch.zeros_like(x, dtype=wide).scatter(-1, indices, of_top).to(x.dtype), None, None


def _batched(
    info: Any, in_dims: tuple[Any, ...], x: Tensor, k: int, whole: bool
) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    x = x.movedim(in_dims[0], 0)
    values, indices = operator(x.flatten(0, 1), k, whole)
    shape = *x.shape[:2], k
    return (values.view(shape), indices.view(shape)), (0, 0)


torch.library.impl("roofline::topk_softmax", "cuda", _cuda)
torch.library.impl("roofline::topk_softmax", "cpu", _torch)
torch.library.register_fake("roofline::topk_softmax", _fake)
torch.library.register_autograd("roofline::topk_softmax", _gradient, setup_context=_keep)
torch.library.register_vmap("roofline::topk_softmax", _batched)
