"""Which shape of kernel is fastest for the gradient of a softmax?  Writes the table it selects by.

    python -m experiments.tune_backward --out kernels/frontier/tables/backward/nvidia-h200.json \
        --log tune_backward.csv

Candidates are checked against float64, and timed in turn with torch.add of three tensors of the
same size, of which each fraction is.  As experiments.tune does for the softmax.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
import typer

from experiments import timer
from experiments.candidates import (
    CLUSTER_BLOCKS,
    CLUSTER_THREADS,
    LEAN,
    OVERHEAD,
    REGISTERS,
    THREADS,
    WARP_THREADS,
)
from experiments.tuning import fractions, of_widths
from kernels.compiled import CompileError, Job
from kernels.frontier.backward import softmax_backward
from kernels.frontier.backward_plans import FOLDER, STREAM, least_lanes, plan_of, possible
from kernels.frontier.compiler import compile_plan
from kernels.frontier.plans import VECTOR_BYTES, Shape, vectors_from_line
from kernels.frontier.select import TABLES
from kernels.names import slug
from kernels.operators import composed_backward
from kernels.registry import ELEMENT_BYTES

TENSOR_BYTES, PAIRS = 2**28, 2
# Rows of both 16-bit types go by what bfloat16 took.
DTYPES = ("float32", "bfloat16")
WIDTHS = (*(2**k for k in range(6, 21)), 12_288, 24_576, 49_152, 98_304, 50_256, 128_256, 196_608)
BLOCK_THREADS = (64, 128, 256, 512, 1024)
MOST_HELD = 8  # vectors of each tensor, and with edges another for what precedes them in a line
# Blocks of a team in a grid, of which an H200's multiprocessors make whole ones.
GRID_PARTS, GRID_THREADS, GRID_LEAST = (22, 33, 44, 66, 132), (256, 512), 16_384  # vectors
# Vectors of a thread in shared memory, from so many of a row on.
STASHED, STASHED_LEAST = (2, 3, 4, 6, 8), 16_384
MOST_FEWER = 2  # blocks of a multiprocessor below as many as its registers hold
# Bytes of a multiprocessor, and of these what a block has beside what it is launched with.
SHARED, OWN_SHARED = 228 * 1024, 2048
NEAR = {"float32": 2e-5, "bfloat16": 2e-2}
ESTIMATE_NS = 2e5


class Width(NamedTuple):
    """What is measured."""

    dtype: str
    edges: int
    cols: int

    @property
    def size(self) -> int:
        return ELEMENT_BYTES[self.dtype]

    @property
    def rows(self) -> int:
        return max(1, TENSOR_BYTES // (self.cols * self.size))


def widths() -> Iterator[Width]:
    """All of them; with edges they are one element more than whole vectors."""
    for dtype, edges, cols in product(DTYPES, (0, 1), sorted(WIDTHS)):
        yield Width(dtype, edges, cols + edges)


def candidates(width: Width) -> Iterator[Shape]:
    """What may be fast there."""
    _, edges, cols = width
    whole, vectors = cols * width.size // VECTOR_BYTES, vectors_from_line(cols, width.size, edges)
    most = MOST_HELD + edges
    for lanes, threads in product((1, 2, 4, 8, 16, 32), WARP_THREADS):
        if least_lanes(width.size, edges) <= lanes <= max(1, whole) <= lanes * MOST_HELD:
            yield Shape("warp", (lanes, threads))
    for threads in BLOCK_THREADS:
        yield from _held(Shape("block", (threads,)), vectors, threads, most)
    for blocks, threads in product(CLUSTER_BLOCKS, CLUSTER_THREADS):
        yield from _held(Shape("cluster", (threads, blocks)), vectors, threads * blocks, most)
    for parts, threads in product(GRID_PARTS, GRID_THREADS if vectors >= GRID_LEAST else ()):
        yield from _held(Shape("grid", (threads, parts)), vectors, threads * parts, most)
    if vectors >= 4 * STREAM.sizes[0]:
        yield STREAM


def _held(shape: Shape, vectors: int, threads: int, most: int) -> Iterator[Shape]:
    """By how many of its blocks a multiprocessor has at least; ``most`` vectors a thread."""
    held, of_block = -(-vectors // threads), shape.sizes[0]
    shared = shape.regime in ("cluster", "grid") and vectors >= STASHED_LEAST
    for stashed in (0, *STASHED) if shared else (0,):
        # As they came, elements take four registers a vector and tensor.
        registers = (LEAN if stashed else OVERHEAD) + 8 * (held - stashed)
        if not (threads // 2 <= vectors and stashed < held <= most + stashed):
            continue
        if registers * of_block > REGISTERS or _shared(shape, stashed) > SHARED:
            continue
        fit = min(THREADS, REGISTERS // registers) // of_block
        for least in range(max(1, fit - MOST_FEWER), max(1, fit) + 1):
            if least * _shared(shape, stashed) <= SHARED:
                yield Shape(shape.regime, (*shape.sizes, least, *((stashed,) if stashed else ())))


def _shared(shape: Shape, stashed: int) -> int:
    """Bytes of shared memory that a block takes, with what the GPU keeps for itself."""
    return shape.sizes[0] * stashed * 2 * VECTOR_BYTES + OWN_SHARED


def compiled(shape: Shape, width: Width, arch: str) -> bool:
    """Whether the kernel compiles, to find it in the cache afterwards."""
    try:
        plan = plan_of(shape, width.cols, width.size, width.edges)
        compile_plan(plan, Job("frontier", width.dtype, arch))
    except CompileError:
        return False
    return True


def measure(width: Width, shapes: list[Shape], flush: timer.Flush) -> dict[Shape, float]:
    """Fraction of torch.add's speed by shape, without those that are wrong."""
    dtype = getattr(torch, width.dtype)
    tensors = []
    for _ in range(PAIRS):
        grad = torch.randn(width.rows, width.cols, dtype=dtype, device="cuda")
        y = torch.softmax(torch.randn_like(grad), -1)
        tensors.append(((grad, y), torch.empty_like(y)))

    def add(both: Any, out: torch.Tensor) -> torch.Tensor:
        grad, y = both
        return torch.add(grad, y, out=out)

    ceiling = timer.DeviceTimer(add, tensors, flush, ESTIMATE_NS)
    timers = {}
    for shape in shapes:

        def gradient(both: Any, out: torch.Tensor, shape: Shape = shape) -> torch.Tensor:
            grad, y = both
            return softmax_backward(grad, y, out, shape=shape)

        (grad, y), out = tensors[0]
        gradient((grad, y), out.fill_(torch.nan))
        few = slice(-4, None)
        right = composed_backward(
            grad[few].double(), y[few].double(), -1, torch.float64, False, 1.0, 1.0, False
        )
        off = ((out[few].double() - right).abs() / (y[few].double() + 1e-30)).max().item()
        if off <= NEAR[width.dtype] * 8 and not bool(out.isnan().any()):
            timers[shape] = timer.DeviceTimer(gradient, tensors, flush, ESTIMATE_NS)
        else:
            print(f"wrong: {shape} at {width}: off by {off:.2g} of y")
    found = fractions([ceiling], timers)
    del tensors, timers, ceiling
    torch.cuda.empty_cache()
    return found


def main(
    out: Annotated[Path | None, typer.Option(help="the table; by default this GPU's")] = None,
    log: Annotated[Path, typer.Option(help="all candidates, a CSV")] = Path(
        "results/tune_backward.csv"
    ),
) -> None:
    """Measure all candidates; write the fastest of each width."""
    gpu = torch.cuda.get_device_properties(0)
    out = out or TABLES / FOLDER / f"{slug(gpu.name)}.json"
    arch = gpu.major * 10 + gpu.minor
    asked = {
        width: [
            shape
            for shape in dict.fromkeys(candidates(width))
            if possible(shape, arch, gpu.multi_processor_count)
        ]
        for width in widths()
    }
    of_widths(asked, compiled, measure, out, log, of="add")  # no copy reads two tensors


if __name__ == "__main__":
    typer.run(main)
