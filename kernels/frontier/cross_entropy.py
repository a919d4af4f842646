"""The cross-entropy of rows of logits with a class each, and its gradient, by one kernel.

moves    X once and two numbers a row; with the gradient that once too (X twice where no cluster
         holds the row)
holds    any rows, fewer than 2^31 columns, any row stride, any first byte
source   own, after the forward kernels
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.frontier.cross_entropy_plans import (
    INDICES,
    SCALE,
    SCALE_BLOCKS,
    TARGETS,
    CrossEntropyPlan,
    cross_entropy_plan,
    plan_of,
)
from kernels.frontier.frontier import PORTABLE_CLUSTER, gpu, kernel, nothing, rows_of
from kernels.frontier.plans import ALIKE, APART, HOPPERS, NONE, VECTOR_BYTES, Shape
from kernels.prepared import Launch, Prepared, allow, launch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Terms:
    """What a loss is made of, beside the logits; ``every``: rows that do not count have an lse."""

    ignore_index: int
    label_smoothing: float
    z_loss: float
    every: bool


def cross_entropy(
    x: Tensor, target: Tensor, terms: Terms, loss: Tensor, lse: Tensor,
    grad: Tensor | None = None, weight: Tensor | None = None, shape: Shape | None = None,
) -> None:  # fmt: skip
    """Write the loss and the lse of each row of ``x`` (..., cols), and ``grad`` of x's shape.

    ``target`` (int32 or int64), ``loss`` and ``lse`` (float32) are contiguous, an element a row.
    ``grad``, which is ``x`` or does not overlap it, gets the gradients times ``weight``: float32,
    one for all rows or one a row, contiguous; without it 1. ``shape`` names the kernel that is
    taken. Raises ValueError where rows lie unevenly.
    """
    device, stride = x.get_device(), 0 if weight is None or weight.numel() == 1 else 1
    to = x if grad is None else grad
    key = (
        "cross entropy", x.dtype, x.shape, x.stride(), to.stride(), grad is None, target.dtype,
        terms, stride, device, x.data_ptr() % VECTOR_BYTES, to.data_ptr() % VECTOR_BYTES, shape,
    )  # fmt: skip
    launch(
        device, key, lambda: _prepare(x, grad, target, terms, stride, shape),
        x.data_ptr(), to.data_ptr(), target.data_ptr(),
        0 if weight is None else weight.data_ptr(), loss.data_ptr(), lse.data_ptr(),
    )  # fmt: skip


def targets(target: Tensor, cols: int, ignore_index: int, weight: Tensor, wrong: Tensor) -> None:
    """Write 1 / the number of targets that count, and the first wrong one's place, or -1.

    ``target`` is contiguous, ``weight`` a float32 and ``wrong`` an int64.
    """
    device = target.get_device()
    key = ("cross entropy's targets", target.dtype, target.numel(), cols, ignore_index, device)

    def prepare() -> Launch:
        plan = CrossEntropyPlan(TARGETS, 0, NONE, (), INDICES[_name(target)])
        arguments = [None, None, None, target.numel(), cols, ignore_index]
        return _launch(plan, weight, 1, arguments)

    launch(device, key, prepare, target.data_ptr(), weight.data_ptr(), wrong.data_ptr())


def scale(x: Tensor, factor: Tensor) -> None:
    """Multiply ``x`` (..., cols), whose rows are apart, by the float32 ``factor``, in place."""
    device = x.get_device()
    key = ("cross entropy's scale", x.dtype, x.shape, x.stride(), device)

    def prepare() -> Launch:
        if x.numel() == 0:
            return nothing
        rows, cols, stride = rows_of(x)
        blocks = min(rows, SCALE_BLOCKS * gpu(device).multiprocessors)
        plan = CrossEntropyPlan(SCALE, 0, ALIKE)
        return _launch(plan, x, blocks, [None, None, stride, cols, rows, blocks])

    launch(device, key, prepare, x.data_ptr(), factor.data_ptr())


def edges_of(x: Tensor, to: Tensor) -> int:
    """What rows that lie as these have outside their vectors: NONE, ALIKE or APART."""
    (_, cols, stride), to_stride, size = rows_of(x), rows_of(to).stride, x.element_size()
    pointers, strides = x.data_ptr() | to.data_ptr(), (stride | to_stride) * size
    if (pointers | strides | cols * size) % VECTOR_BYTES == 0:
        return NONE
    apart = x.data_ptr() - to.data_ptr() | (stride - to_stride) * size
    return APART if apart % VECTOR_BYTES else ALIKE


def _name(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def _prepare(
    x: Tensor, grad: Tensor | None, target: Tensor, terms: Terms, stride: int, shape: Shape | None
) -> Launch:  # fmt: skip
    if x.numel() == 0:
        return nothing
    (rows, cols, x_stride), to, device = rows_of(x), x if grad is None else grad, x.get_device()
    known, row = gpu(device), (cols, x.element_size(), edges_of(x, to))
    asked = grad is not None, terms.label_smoothing != 0.0, _name(target)
    if shape:
        plan = plan_of(shape, *row, *asked)
    else:
        plan = cross_entropy_plan(rows, *row, known.arch, known.multiprocessors, *asked, known.name)
    grid = rows * plan.blocks
    if plan.shape.regime == "warp":
        grid = -(-rows * plan.shape.sizes[0] // plan.threads)
    factors = struct.unpack("<q", struct.pack("<ff", terms.label_smoothing, terms.z_loss))[0]
    # The last four are one argument, Terms.
    arguments = [
        *[None] * 6, x_stride, rows_of(to).stride, cols, rows,
        terms.ignore_index, stride, factors, int(terms.every),
    ]  # fmt: skip
    return _launch(plan, x, grid, arguments)


def _launch(plan: CrossEntropyPlan, x: Tensor, grid: int, arguments: list[int | None]) -> Launch:
    device = x.get_device()
    function = kernel(plan, x.dtype, device)
    if plan.blocks > PORTABLE_CLUSTER:
        allow(function, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
    early = gpu(device).arch in HOPPERS
    return Prepared(function, grid, plan.threads, 0, arguments, plan.blocks, early=early)
