"""frontier: the kernel that is fastest for a row's width; where it can, one read and one write.

moves    X once, Y once (X twice where no regime holds the row: kernels/frontier/stream.cu)
launch   by regime: several rows a warp, tiles of rows, a block or a cluster per row, dealt chunks
holds    any rows, fewer than 2^31 columns, any row stride, any first byte
teaches  no one kernel is at copy speed for all widths; a measured table of them is
source   own; shared/KERNELS.md
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from kernels.compiled import Job
from kernels.cuda_compiler import C_TYPES
from kernels.frontier.compiler import compile_plan
from kernels.frontier.operators import MASKS, MOST_ROWS, Operator
from kernels.frontier.plans import (
    ALIKE,
    APART,
    HOPPERS,
    LINE,
    NONE,
    STAGED_BYTES,
    VECTOR_BYTES,
    Plan,
    Shape,
    deal,
    staged_bytes,
    tile_apart,
    tile_rows,
)
from kernels.frontier.rows import Rows, as_rows
from kernels.frontier.scratch import scratch
from kernels.frontier.select import Request, measured, possible, select
from kernels.names import slug
from kernels.prepared import Launch, Prepared, allow, known, launch, load

if TYPE_CHECKING:
    from torch import Tensor

LARGE_SHARED = 48 * 1024  # from here on a kernel has to ask for it
STAGED_MOST = STAGED_BYTES + 2 * VECTOR_BYTES
PORTABLE_CLUSTER = 8
LINE_BYTES = LINE * VECTOR_BYTES
NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def softmax(
    x: Tensor, out: Tensor, invariant: bool = False, shape: Shape | None = None,
    operator: Operator | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Softmax of ``x`` (..., cols) along its last dimension into ``out``, of its shape and dtype.

    Both have their rows at even distances (kernels/frontier/rows.py); they are one tensor or do
    not overlap. ``invariant``: a row's bits depend neither on the number of rows nor on how it is
    split. ``shape`` names the kernel that is taken. ``operator`` says what is asked for beside the
    softmax, and ``mask`` is what its Matrix tells of.  Raises ValueError for other tensors, and
    where ``shape`` cannot serve them.
    """
    source, to, device = x.data_ptr(), out.data_ptr(), x.get_device()
    # Whatever the choice of a kernel and its arguments depend on.
    key = (
        x.dtype, x.shape, x.stride(), out.stride(), source % LINE_BYTES, to % VECTOR_BYTES, device,
        invariant, shape, operator,
    )  # fmt: skip
    pointers = (source, to) if mask is None else (source, to, mask.data_ptr())
    if ready := known(device, key):
        ready(torch._C._cuda_getCurrentRawStream(device), *pointers)
    else:
        launch(device, key, lambda: prepare(x, out, invariant, shape, operator), *pointers)
    return out


def run(x: Tensor, out: Tensor, shape: Shape) -> Tensor:
    """The same by one shape of kernel.  Raises ValueError where it cannot serve these rows."""
    return softmax(x, out, shape=shape)


def prepare(
    x: Tensor, out: Tensor, invariant: bool, shape: Shape | None = None,
    operator: Operator | None = None,
) -> Launch:  # fmt: skip
    """The launch for tensors that lie as these, from addresses, a mask's last; as ``softmax``."""
    if x.numel() == 0:
        return nothing
    kind = operator.kind if operator else ""
    asked, device = _request(x, out, invariant, kind), x.get_device()
    if kind in MASKS and asked.rows > MOST_ROWS:
        raise ValueError(f"expected at most {MOST_ROWS} rows with a mask; got {asked.rows}")
    shape = shape or select(asked, gpu(device).name)
    if not possible(shape, asked):
        raise ValueError(f"{shape} cannot serve {asked}")
    plan = shape.plan(asked.cols, asked.size, asked.edges)
    if operator:
        plan = replace(plan, given=operator.types(C_TYPES[asked.dtype]))
    function = kernel(plan, x.dtype, device)
    (rows, cols, stride), out_stride = rows_of(x), rows_of(out).stride
    grid, shared, cluster, tickets = rows, 0, 1, 0
    arguments = [None, None, stride, out_stride, cols, rows]
    match shape.regime:
        case "warp":
            grid = -(-rows // (plan.threads // shape.sizes[0] * shape.together))
        case "tile":
            together = tile_rows(shape, cols, asked.size)
            log2_apart = tile_apart(shape, cols, asked.size).bit_length() - 1
            grid, shared = -(-rows // together), together * cols * asked.size + VECTOR_BYTES
            arguments = [None, None, cols, rows, together, log2_apart]
        case "cluster":
            cluster = shape.sizes[1]
            grid = rows * cluster
        case "staged":
            cluster, shared = shape.sizes[1], staged_bytes(shape, cols, asked.size, asked.edges)
            grid = rows * cluster
        case "grid":
            parts = shape.sizes[1]
            grid, tickets = rows * parts, rows * parts * (1 + shape.invariant)
            arguments += [parts, None]
        case "chunks":
            dealt = deal(shape, cols, asked.size, asked.edges, asked.lines)
            grid, shared = asked.multiprocessors, plan.ring_bytes
            tickets = rows * dealt.tickets * (1 + shape.invariant)
            arguments += [dealt.chunks, dealt.vectors, shape.sizes[4], shape.sizes[6], None]
    arguments += operator.arguments() if operator else []
    if shape.regime == "staged":
        # One kernel serves many widths.  Its own shared memory counts too, below LARGE_SHARED.
        allow(function, "MAX_DYNAMIC_SHARED_SIZE_BYTES", STAGED_MOST)
    elif shared > LARGE_SHARED:
        allow(function, "MAX_DYNAMIC_SHARED_SIZE_BYTES", shared)
    if cluster > PORTABLE_CLUSTER:
        allow(function, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
    dealing = tickets > 0
    early = asked.arch in HOPPERS and shape.early  # these await their turn (turn.cuh)
    ready = Prepared(function, grid, plan.threads, shared, arguments, cluster, dealing, early)
    return _posting(ready, tickets, device) if dealing else ready


def _posting(ready: Prepared, tickets: int, device: int) -> Launch:
    """``ready`` with scratch memory for so many tickets."""
    size = 16 + 16 * (1 << (tickets - 1).bit_length())  # few sizes serve all shapes

    def launch(stream: int, source: int, to: int, *mask: int) -> None:
        ready(stream, source, to, scratch(size, device, stream), *mask)

    return launch


def nothing(*_: int) -> None:
    """The launch for tensors without elements."""


def rows_of(x: Tensor) -> Rows:
    """The rows of ``x``; raises ValueError where it has none that a kernel takes."""
    found = as_rows(x.shape, x.stride())
    if found is None:
        raise ValueError(
            f"expected rows at even distances, of elements side by side; got shape "
            f"{tuple(x.shape)} with strides {x.stride()}: pass x.contiguous()"
        )
    return found


def _request(
    x: Tensor, out: Tensor, invariant: bool = False, operator: str = ""
) -> Request:  # fmt: skip
    (rows, cols, x_stride), out_stride = rows_of(x), rows_of(out).stride
    size, device = x.element_size(), gpu(x.get_device())
    pointers, strides = x.data_ptr() | out.data_ptr(), (x_stride | out_stride) * size
    edges = NONE
    if (pointers | strides | cols * size) % VECTOR_BYTES:
        apart = x.data_ptr() - out.data_ptr() | (x_stride - out_stride) * size
        edges = APART if apart % VECTOR_BYTES else ALIKE
    return Request(
        dtype=NAMES[x.dtype], rows=rows, cols=cols,
        edges=edges,
        contiguous=x_stride == out_stride == cols,
        lines=(x.data_ptr() | x_stride * size) % LINE_BYTES == 0,
        arch=device.arch, multiprocessors=device.multiprocessors, invariant=invariant,
        operator=operator,
    )  # fmt: skip


class Gpu(NamedTuple):
    name: str
    arch: int
    multiprocessors: int


@cache
def gpu(index: int) -> Gpu:
    """The name (a slug) of a GPU, its architecture (90 for sm_90) and its multiprocessors."""
    facts = torch.cuda.get_device_properties(index)
    name = slug(facts.name)
    if not measured(name):
        warnings.warn(
            f"{facts.name} has no table of the frontier's kernels, which go by another GPU's or by "
            "rule: snakemake --cores 1 tune measures one",
            stacklevel=2,
        )
    return Gpu(name, 10 * facts.major + facts.minor, facts.multi_processor_count)


@cache
def kernel(plan: Plan, dtype: torch.dtype, device: int) -> Any:
    """The kernel of ``plan`` on the current GPU, which is ``device``."""
    made = compile_plan(plan, Job("frontier", NAMES[dtype], f"sm_{gpu(device).arch}"))
    return load(made.cubin, made.kernels[0].symbol)
