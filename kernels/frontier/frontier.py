"""frontier: the kernel that is fastest for a row's width; where it can, one read and one write.

moves    X once, Y once (X twice where no regime holds the row: kernels/frontier/stream.cu)
launch   by regime: several rows a warp, tiles of rows, a block or a cluster per row, dealt chunks
holds    any rows and columns, any row stride, any first byte
teaches  no one kernel is at copy speed for all widths; a measured table of them is
source   own; shared/KERNELS.md
"""

from __future__ import annotations

import threading
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, ObjectCode, Stream, launch

from kernels.compiled import Job
from kernels.frontier.compiler import compile_plan
from kernels.frontier.plans import (
    ALIKE,
    APART,
    LINE,
    NONE,
    VECTOR_BYTES,
    WARP_THREADS,
    Deal,
    Plan,
    Shape,
    deal,
    tile_apart,
    tile_rows,
)
from kernels.frontier.select import Request, possible, select
from kernels.names import slug

if TYPE_CHECKING:
    from torch import Tensor

LARGE_SHARED = 48 * 1024  # from here on a kernel has to ask for it
PORTABLE_CLUSTER = 8
SHAPES_KEPT = 4096  # of those met, what was chosen for them


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    rows, cols = x.shape
    if rows == 0 or cols == 0:
        return out
    asked = _request(x, out)
    return _launch(x, out, _chosen(asked, x.device.index), asked)


def run(x: Tensor, out: Tensor, shape: Shape) -> Tensor:
    """The same by one shape of kernel.  Raises ValueError where it cannot serve these rows."""
    return _launch(x, out, shape, _request(x, out))


def _launch(x: Tensor, out: Tensor, shape: Shape, asked: Request) -> Tensor:
    if torch.cuda.current_device() != x.device.index:
        with torch.cuda.device(x.device):
            return _launch(x, out, shape, asked)
    _bind(x.device.index)
    rows, cols = x.shape
    size, strides = x.element_size(), (x.stride(0), out.stride(0))
    kernel, config = _loaded(shape, asked, x.dtype, x.device.index)
    stream = torch.cuda.current_stream(x.device).cuda_stream
    arguments: list[Any] = [x.data_ptr(), out.data_ptr()]
    if shape.regime == "tile":
        tile, apart = tile_rows(shape, cols, size), tile_apart(shape, cols, size)
        arguments += [np.int32(cols), np.int64(rows), np.int32(tile)]
        arguments.append(np.int32(apart.bit_length() - 1))
    else:
        arguments += [np.int64(strides[0]), np.int64(strides[1]), np.int32(cols)]
        if shape.regime == "chunks":
            dealt = _dealt(shape, cols, size, asked.lines)
            numbers = (rows, dealt.chunks, dealt.vectors, shape.sizes[4])
            arguments += map(np.int32, numbers)
            tickets = (
                1 << (rows * dealt.tickets * (1 + shape.invariant) - 1).bit_length()
            )  # few sizes serve all shapes
            scratch = _scratch(tickets, x.device.index, stream, _capture(stream))
            arguments.append(scratch.data_ptr())
        else:
            arguments.append(np.int64(rows))
    launch(_stream(stream), config, kernel, *arguments)
    return out


_CURRENT = threading.local()


def _bind(device: int) -> None:
    """Make the GPU current for the driver too: to torch it is, but a new thread has no context."""
    if getattr(_CURRENT, "device", None) != device:
        Device(device).set_current()
        _CURRENT.device = device


def _request(x: Tensor, out: Tensor) -> Request:
    rows, cols = x.shape
    # One row has no stride that says anything.
    x_stride, out_stride = (x.stride(0), out.stride(0)) if rows > 1 else (cols, cols)
    size = x.element_size()
    device = _device(x.device.index)
    pointers, strides = x.data_ptr() | out.data_ptr(), (x_stride | out_stride) * size
    edges = NONE
    if (pointers | strides | cols * size) % VECTOR_BYTES:
        apart = x.data_ptr() - out.data_ptr() | (x_stride - out_stride) * size
        edges = APART if apart % VECTOR_BYTES else ALIKE
    return Request(
        dtype=_NAMES[x.dtype], rows=rows, cols=cols,
        edges=edges,
        contiguous=x_stride == out_stride == cols,
        lines=(x.data_ptr() | x_stride * size) % (LINE * VECTOR_BYTES) == 0,
        arch=device.arch, multiprocessors=device.multiprocessors,
    )  # fmt: skip


_NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


class _Gpu(NamedTuple):
    name: str
    arch: int
    multiprocessors: int


@cache
def _device(index: int) -> _Gpu:
    facts = torch.cuda.get_device_properties(index)
    return _Gpu(slug(facts.name), 10 * facts.major + facts.minor, facts.multi_processor_count)


@lru_cache(SHAPES_KEPT)
def _chosen(request: Request, device: int) -> Shape:
    return select(request, _device(device).name)


@lru_cache(SHAPES_KEPT)
def _dealt(shape: Shape, cols: int, size: int, lines: bool) -> Deal:
    return deal(shape, cols, size, lines)


def _capture(stream: int) -> int:
    """A number of the CUDA graph that ``stream`` is being captured into; 0 for none."""
    error, status, number, *_ = driver.cuStreamGetCaptureInfo(stream)
    active = driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    return int(number) if error == driver.CUresult.CUDA_SUCCESS and status == active else 0


# By device: zeroed, and nobody's yet.  A graph takes one, since memory that is zeroed while it is
# captured is zeroed by every replay.
_SPARE: dict[int, list[Tensor]] = {}
_TAKING = threading.Lock()


@cache
def _scratch(tickets: int, device: int, stream: int, capture: int) -> Tensor:
    """Where launches post their tickets and count themselves: one for a stream, or for a graph.

    Two graphs may be replayed at once, whatever stream they were captured on.  A launch leaves it
    ready for the next.
    """
    size = 16 + 16 * tickets
    if capture:
        with _TAKING:
            spare = _SPARE.get(device, [])
            fitting = [i for i, memory in enumerate(spare) if memory.numel() >= size]
            if fitting:
                return spare.pop(min(fitting, key=lambda i: spare[i].numel()))
        return torch.zeros(size, dtype=torch.uint8, device=f"cuda:{device}")
    mine, other = torch.zeros(2, size, dtype=torch.uint8, device=f"cuda:{device}").unbind()
    torch.cuda.current_stream(device).synchronize()
    _SPARE.setdefault(device, []).append(other)
    return mine


class _Loaded(NamedTuple):
    kernel: Any
    config: LaunchConfig


@lru_cache(SHAPES_KEPT)
def _loaded(shape: Shape, asked: Request, dtype: torch.dtype, device: int) -> _Loaded:
    if not possible(shape, asked):
        raise ValueError(f"{shape} cannot serve {asked}")
    plan = shape.plan(asked.cols, asked.size, asked.edges)
    kernel = _kernel(plan, dtype, device)
    grid, shared, more = asked.rows, 0, {}
    match shape.regime:
        case "warp":
            grid = -(-asked.rows * shape.sizes[0] // WARP_THREADS)
        case "tile":
            rows = tile_rows(shape, asked.cols, asked.size)
            grid, shared = -(-asked.rows // rows), rows * asked.cols * asked.size + VECTOR_BYTES
        case "cluster":
            more = {"cluster": shape.sizes[1]}
        case "chunks":
            grid, shared = asked.multiprocessors, shape.sizes[0] * shape.sizes[1] * VECTOR_BYTES
            more = {"is_cooperative": True}
    if shared > LARGE_SHARED:
        _set(kernel, "MAX_DYNAMIC_SHARED_SIZE_BYTES", shared, device)
    if more.get("cluster", 1) > PORTABLE_CLUSTER:
        _set(kernel, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1, device)
    return _Loaded(kernel, LaunchConfig(grid=grid, block=plan.threads, shmem_size=shared, **more))


@cache
def _kernel(plan: Plan, dtype: torch.dtype, device: int) -> Any:
    job = Job("frontier", _NAMES[dtype], f"sm_{_device(device).arch}")
    made = compile_plan(plan, job)
    return ObjectCode.from_cubin(made.cubin).get_kernel(made.kernels[0].symbol)


def _set(kernel: Any, name: str, value: int, device: int) -> None:
    attribute = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
    (error,) = driver.cuKernelSetAttribute(attribute, value, int(kernel.handle), device)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"this GPU refuses {value} for {name} of a kernel: {error.name}")


@cache
def _stream(handle: int) -> Stream:
    return Stream.from_handle(handle)
