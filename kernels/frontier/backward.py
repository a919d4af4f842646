"""The gradient of a softmax, dx = y (dy - sum(dy y)), by one kernel.

moves    Y and dY once, dX once (Y and dY twice where neither a cluster nor a grid holds the row)
holds    any rows, fewer than 2^31 columns, any row stride, any first byte
source   own, after the forward kernels
"""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch

from kernels.frontier.backward_plans import backward_plan, plan_of, possible, teams
from kernels.frontier.frontier import PORTABLE_CLUSTER, gpu, kernel, nothing, rows_of
from kernels.frontier.plans import HOPPERS, VECTOR_BYTES, Shape
from kernels.frontier.scratch import scratch
from kernels.prepared import Launch, Prepared, allow, known, launch

if TYPE_CHECKING:
    from torch import Tensor

LOG2E = math.log2(math.e)


class Gradient(NamedTuple):
    """Of ``factor`` * softmax(``scale`` * x), or of its logarithm; ``factor`` is not 0.

    ``masked``: -inf among logarithms is what a mask left out, and has no gradient.
    """

    log: bool
    scale: float
    factor: float
    masked: bool

    @property
    def type(self) -> str:
        """The C++ type of what a kernel is given (backward.cuh)."""
        return f"OfLogarithm<{str(self.masked).lower()}>" if self.log else "OfFactors"

    @property
    def argument(self) -> int:
        """Its value: two floats in one slot."""
        outer = self.scale * (self.factor if self.log else 1.0)
        inner = (LOG2E if self.log else 1.0) / self.factor
        return struct.unpack("<q", struct.pack("<ff", outer, inner))[0]


def softmax_backward(
    grad: Tensor, y: Tensor, out: Tensor, of: Gradient | None = None, shape: Shape | None = None
) -> Tensor:  # fmt: skip
    """The gradient of a softmax (..., cols) along its last dimension, into ``out``.

    ``y`` is what the softmax gave, or the operator ``of`` it, ``grad`` the gradient of that. All
    three have one shape and dtype and their rows at even distances, and ``out`` overlaps neither of
    the others. ``shape`` names the kernel that is taken.

    Raises ValueError where rows lie otherwise, and where the GPU cannot launch ``shape``.
    """
    results, theirs, to, device = y.data_ptr(), grad.data_ptr(), out.data_ptr(), y.get_device()
    key = (
        "backward", of, y.dtype, y.shape, y.stride(), grad.stride(), out.stride(), device,
        (results | theirs | to) % VECTOR_BYTES == 0, shape,
    )  # fmt: skip
    if ready := known(device, key):
        ready(torch._C._cuda_getCurrentRawStream(device), results, theirs, to)
    else:
        launch(device, key, lambda: _prepare(of, shape, y, grad, out), results, theirs, to)
    return out


def _prepare(of: Gradient | None, shape: Shape | None, *tensors: Tensor) -> Launch:
    y, device = tensors[0], tensors[0].get_device()
    if y.numel() == 0:
        return nothing
    (rows, cols, _), size = rows_of(y), y.element_size()
    strides = [rows_of(t).stride for t in tensors]
    places = (*(t.data_ptr() for t in tensors), *(s * size for s in strides), cols * size)
    edges = any(place % VECTOR_BYTES for place in places)
    there = gpu(device)
    if shape:
        if not possible(shape, there.arch, there.multiprocessors):
            raise ValueError(f"{there.name} has no room for a gradient's {shape}")
        plan = plan_of(shape, cols, size, edges)
    else:
        plan = backward_plan(cols, size, edges, there.arch, there.multiprocessors, there.name)
    if of:
        plan = replace(plan, given=(of.type,))
    function, grid, cluster = kernel(plan, y.dtype, device), rows, 1
    arguments = [None, None, None, *strides, cols, rows]
    match plan.shape.regime:
        case "warp":
            grid = -(-rows * plan.shape.sizes[0] // plan.threads)
        case "cluster":
            cluster = plan.shape.sizes[1]
            grid = rows * cluster
        case "grid":
            parts = plan.shape.sizes[1]
            grid = min(rows, teams(plan.shape, there.multiprocessors)) * parts
            arguments += [parts, None]
    if cluster > PORTABLE_CLUSTER:
        allow(function, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
    if plan.ring_bytes:
        allow(function, "MAX_DYNAMIC_SHARED_SIZE_BYTES", plan.ring_bytes)
    arguments += [of.argument] if of else []
    dealing, early = plan.shape.regime == "grid", there.arch in HOPPERS
    ready = Prepared(
        function, grid, plan.threads, plan.ring_bytes, arguments, cluster, dealing, early
    )
    return _meeting(ready, 2 * grid, device) if dealing else ready


def _meeting(ready: Prepared, posted: int, device: int) -> Launch:
    """``ready`` with scratch memory for so many sums.

    It may be that of a forward kernel, which leaves it as this one does.
    """
    size = 16 + 16 * (1 << (posted - 1).bit_length())

    def launch(stream: int, results: int, theirs: int, to: int) -> None:
        ready(stream, results, theirs, to, scratch(size, device, stream))

    return launch
