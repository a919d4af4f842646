"""triton_frontier: the kernel of Triton's that is fastest for a row's width, by a measured table.

moves    X once, Y once; X twice where no regime holds the row (triton_online)
launch   by regime: triton_held, triton_grid, triton_online
holds    any rows and columns, any row stride, any first element
teaches  how near to copy Triton comes at every width, and what it cannot say
source   own; kernels/triton/_select.py
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from kernels.names import slug
from kernels.registry import ELEMENT_BYTES
from kernels.triton import triton_grid, triton_held, triton_online
from kernels.triton._rows import VECTOR_BYTES, lie
from kernels.triton._select import DEFAULT, Request, Shape, select

if TYPE_CHECKING:  # compiling needs no torch
    from collections.abc import Iterator

    from torch import Tensor

    from kernels.specialise import Specialisation

# Widths that stand for the table's ranges; the others are compiled when they are met.
AHEAD = (64, 63, 1024, 8192, 32_768, 50_257, 131_072)
H200 = (132, 2048)  # multiprocessors, threads of each
INTERPRETER = ("", 0, 0)


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    if x.shape[0] == 0 or x.shape[1] == 0:
        return out
    dtype = str(x.dtype).removeprefix("torch.")
    return run(x, out, _chosen(dtype, x.shape[1], lie(x, out).edges, x.device.index))


def run(x: Tensor, out: Tensor, shape: Shape) -> Tensor:
    """The same by one shape of kernel."""
    match shape.regime:
        case "held":
            return triton_held.run(x, out, shape.held)
        case "grid":
            return triton_grid.run(x, out, shape.dealt)
    return triton_online.softmax(x, out)


@cache
def _gpu(device: int | None) -> tuple[str, int, int]:
    """Name, multiprocessors and threads of a multiprocessor; of the interpreter without a GPU."""
    import torch

    if device is None:
        return INTERPRETER
    facts = torch.cuda.get_device_properties(device)
    return slug(facts.name), facts.multi_processor_count, facts.max_threads_per_multi_processor


@lru_cache(4096)
def _chosen(dtype: str, cols: int, edges: bool, device: int | None) -> Shape:
    gpu, multiprocessors, threads = _gpu(device)
    return select(Request(dtype, cols, edges, multiprocessors, threads), gpu)


def specialise(shape: Shape, cols: int, size: int, edges: bool) -> Specialisation:
    """The compilation that ``run`` takes for rows of ``cols`` elements of ``size`` bytes."""
    match shape.regime:
        case "held":
            return triton_held.specialise(shape.held, cols, size, edges)
        case "grid":
            return triton_grid.specialise(shape.dealt, cols, size, edges)
    return next(triton_online.specialisations())


def specialisations() -> Iterator[Specialisation]:
    """What is chosen on an H200 for rows of AHEAD columns, each compilation once."""
    found = {}
    for dtype, size in ELEMENT_BYTES.items():
        for cols in AHEAD:
            edges = cols * size % VECTOR_BYTES != 0
            shape = select(Request(dtype, cols, edges, *H200), DEFAULT)
            spec = specialise(shape, cols, size, edges)
            # One for both dtypes of 16 bits would be for what one of them chose.
            found[dtype, spec.key] = replace(spec, dtypes=(dtype,))
    yield from found.values()
