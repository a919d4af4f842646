"""Softmax along a dimension that is not the last, of a tensor that lies as (outer, cols, inner).

moves    X once, Y once (X twice where no cluster holds a strip of its rows)
holds    fewer than 2^31 rows, of places side by side, at any even distances, any first byte
source   own, after the forward kernels
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernels.frontier.columns_layout import apart, as_columns, unit_bytes
from kernels.frontier.columns_plans import choose, chosen
from kernels.frontier.frontier import PORTABLE_CLUSTER, gpu, kernel
from kernels.frontier.plans import HOPPERS, VECTOR_BYTES, Shape
from kernels.frontier.scratch import scratch
from kernels.prepared import Launch, Prepared, allow, launch

if TYPE_CHECKING:
    from torch import Tensor

MOST_PLACES = 2**31 - 1  # a launch has no more blocks


def takes(x: Tensor, dim: int, out: Tensor) -> bool:
    """Whether ``x`` and ``out`` lie as columns along ``dim`` that a launch has blocks for."""
    columns, to = (as_columns(t.shape, t.stride(), dim) for t in (x, out))
    return (
        columns is not None
        and to is not None
        and columns[:3] == to[:3]
        and apart(to)
        and columns.outer * columns.inner <= MOST_PLACES
    )


def softmax(
    x: Tensor, dim: int, out: Tensor, log: bool = False, shape: Shape | None = None
) -> Tensor:  # fmt: skip
    """Softmax of ``x`` along ``dim`` into ``out``, of its shape and dtype; ``log``: its logarithm.

    They are one tensor or do not overlap. ``shape`` names the kernel that is taken. Raises
    ValueError for tensors that ``takes`` does not, or which ``shape`` cannot hold.
    """
    source, to, device = x.data_ptr(), out.data_ptr(), x.get_device()
    key = (
        "columns", x.dtype, x.shape, dim, x.stride(), out.stride(), source % VECTOR_BYTES,
        to % VECTOR_BYTES, device, log, shape,
    )  # fmt: skip
    launch(device, key, lambda: prepare(x, dim, out, log, shape), source, to)
    return out


def prepare(
    x: Tensor, dim: int, out: Tensor, log: bool = False, shape: Shape | None = None
) -> Launch:  # fmt: skip
    """The launch for tensors that lie as these; as ``softmax``."""
    if not takes(x, dim, out):
        raise ValueError(
            f"expected places side by side, in rows at even distances along dimension {dim}; got "
            f"shape {tuple(x.shape)} with strides {x.stride()} and {out.stride()}: pass "
            "x.contiguous(), and a dimension that is not the last"
        )
    columns, to = (as_columns(t.shape, t.stride(), dim) for t in (x, out))
    assert columns is not None
    assert to is not None
    size, device = x.element_size(), x.get_device()
    steps = (columns.outer_stride, columns.step, to.outer_stride, to.step)
    places = (x.data_ptr(), out.data_ptr(), columns.inner * size, *(step * size for step in steps))
    arch, multiprocessors = gpu(device).arch, gpu(device).multiprocessors
    unit = unit_bytes(size, *places)
    if shape:
        choice = chosen(shape, columns, size, unit, log)
    else:
        choice = choose(columns, size, unit, log, arch, multiprocessors, gpu(device).name)
    functions = [kernel(plan, x.dtype, device) for plan in choice.plans]
    early = arch in HOPPERS
    numbers = [columns.outer * choice.pitch, choice.pitch, choice.units, columns.cols]
    threads = choice.plans[0].threads
    if choice.band:
        capacity = choice.capacity(size)
        more = [
            choice.splits, choice.share, choice.strips, choice.band, choice.ahead, choice.backwards,
            capacity,
        ]  # fmt: skip
        ready = Prepared(
            functions[0], choice.blocks, threads, 0, [*[None] * 4, *steps, *numbers, *more],
            early=early,
        )  # fmt: skip
        return _meeting(ready, choice.partials_bytes(size), 32 * (1 + capacity), x.device)
    if len(functions) == 1:
        cluster = choice.splits
        if cluster > PORTABLE_CLUSTER:
            allow(functions[0], "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
        if shared := choice.plans[0].shared_bytes:  # beside the kernel's own
            allow(functions[0], "MAX_DYNAMIC_SHARED_SIZE_BYTES", shared)
        return Prepared(
            functions[0], choice.blocks, threads, shared, [None, None, *steps, *numbers], cluster,
            early=early,
        )  # fmt: skip
    split = [choice.splits, choice.share]
    first, second = (
        Prepared(function, choice.blocks, threads, 0, arguments, early=early)
        for function, arguments in zip(
            functions,
            (
                [None, None, *steps[:2], *numbers, *split],
                [None, None, None, *steps, *numbers, *split],
            ),
            strict=True,
        )
    )
    return _twice(first, second, choice.partials_bytes(size), x.device)


def _meeting(ready: Prepared, size: int, meeting: int, device: torch.device) -> Launch:
    """``ready`` with memory for pairs, and with that in which its blocks meet, ``meeting`` bytes.

    No kernel of rows asks for as many: what they leave there is something else.
    """

    def launch(stream: int, source: int, to: int) -> None:
        partials = torch.empty(size, dtype=torch.uint8, device=device)
        ready(stream, source, to, partials.data_ptr(), scratch(meeting, device.index, stream))

    return launch


def _twice(first: Prepared, second: Prepared, size: int, device: torch.device) -> Launch:
    """Both, with memory between them that is the stream's next call's as soon as they are sent."""

    def launch(stream: int, source: int, to: int) -> None:
        partials = torch.empty(size, dtype=torch.uint8, device=device)
        first(stream, source, partials.data_ptr())
        second(stream, source, partials.data_ptr(), to)

    return launch
