"""Which shape of kernel is fastest for a loss and its gradient?  Writes the table it selects by.

    python -m experiments.tune_cross_entropy \
        --out kernels/frontier/tables/cross_entropy/nvidia-h200.json --log tune_cross_entropy.csv

Candidates hold a row of logits in registers; each is checked against float64, and timed in turn
with the rule's choice and with a copy of the logits, of which each fraction is.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
import typer

from experiments import timer
from experiments.candidates import CLUSTER_BLOCKS, CLUSTER_THREADS, REGISTERS, THREADS
from experiments.sweeps import Point
from experiments.sweeps.sweep import COPIES
from experiments.tuning import fractions, of_widths
from kernels.compiled import CompileError, Job
from kernels.frontier.compiler import compile_plan
from kernels.frontier.cross_entropy import Terms, cross_entropy
from kernels.frontier.cross_entropy_plans import FOLDER, by_rule, plan_of
from kernels.frontier.plans import Shape, vectors_from_line
from kernels.frontier.select import TABLES
from kernels.launch import load
from kernels.names import slug
from kernels.registry import ELEMENT_BYTES, variant

TENSOR_BYTES = 2**29
# Rows of both 16-bit types go by what bfloat16 took.
DTYPES = ("float32", "bfloat16")
# Whole vectors: vocabularies in use, and widths between them, where shapes give way to the next.
VOCABULARIES = (32_000, 50_256, 128_256, 151_936, 201_088)
WIDTHS = tuple(sorted({base * 2**k for base in (2048, 3072) for k in range(8)} | {*VOCABULARIES}))
BLOCK_THREADS = (128, 256, 512, 1024)
MOST_HELD = 16  # vectors of a thread
OVERHEAD = 30  # registers that a thread has beside its share of the row
TERMS = Terms(-100, 0.0, 0.0, every=False)
NEAR = {"float32": 2e-5, "bfloat16": 1e-2}
FEW_ROWS = 4  # are checked
ESTIMATE_NS = 3e5


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
        return TENSOR_BYTES // (self.cols * self.size)


def widths() -> Iterator[Width]:
    """All of them; with edges they are one element more than whole vectors."""
    for dtype, edges, cols in product(DTYPES, (0, 1), WIDTHS):
        yield Width(dtype, edges, cols + edges)


def candidates(width: Width, arch: int) -> Iterator[Shape]:
    """The rule's choice, and what may be faster: shapes by their blocks of a multiprocessor."""
    _, edges, cols = width
    vectors = vectors_from_line(cols, width.size, edges)
    yield by_rule(cols, width.size, edges, arch, gradient=True)
    shapes = [Shape("block", (threads,)) for threads in BLOCK_THREADS]
    shapes += [Shape("cluster", s[::-1]) for s in product(CLUSTER_BLOCKS, CLUSTER_THREADS)]
    for shape in shapes:
        of_block, of_row = shape.sizes[0], shape.sizes[0] * (*shape.sizes, 1)[1]
        held = plan_of(shape, cols, width.size, edges, True, False, "int64").held
        if held > MOST_HELD or vectors < of_row // 2:
            continue
        fit = min(THREADS, REGISTERS // (OVERHEAD + 4 * held)) // of_block
        for least in range(max(1, fit - 1), max(1, fit) + 1):
            yield Shape(shape.regime, (*shape.sizes, least))


def compiled(shape: Shape, width: Width, arch: str) -> bool:
    """Whether the kernel compiles, to find it in the cache afterwards."""
    plan = plan_of(shape, width.cols, width.size, width.edges, True, False, "int64")
    try:
        compile_plan(plan, Job("frontier", width.dtype, arch))
    except CompileError:
        return False
    return True


def relative_error(x: torch.Tensor, target: torch.Tensor, grad: torch.Tensor) -> float:
    """The largest error of ``grad``, relative to what was subtracted, or 1/N where that is more."""
    p = torch.softmax(x.double(), -1)
    one = torch.zeros_like(p).scatter_(1, target[:, None], 1.0)
    return float(((grad.double() - (p - one)).abs() / (p.clamp_min(1 / x.shape[1]) + one)).max())


def measure(width: Width, shapes: list[Shape], flush: timer.Flush) -> dict[Shape, float]:
    """Fraction of copy's speed by shape, without those that are wrong."""
    dtype, _, cols = width
    pairs = timer.buffers(Point(dtype, width.rows, cols), "cuda", seed=1)
    target = torch.randint(cols, (width.rows,), device="cuda")
    loss, lse = (torch.empty(width.rows, device="cuda") for _ in range(2))
    copies = [timer.DeviceTimer(load(c), pairs, flush, 2e5, variant(c).graph) for c in COPIES]
    timers = {}
    for shape in shapes:

        def slope(x: torch.Tensor, out: torch.Tensor, shape: Shape = shape) -> torch.Tensor:
            cross_entropy(x, target, TERMS, loss, lse, out, shape=shape)
            return out

        x, out = pairs[0]
        try:
            slope(x, out.fill_(torch.nan))
        except RuntimeError as error:
            print(f"fails: {shape} at {width}: {error}")
            continue
        some = slice(-FEW_ROWS, None)
        off = relative_error(x[some], target[some], out[some])
        if off <= NEAR[dtype] and not bool(out.isnan().any()):
            timers[shape] = timer.DeviceTimer(slope, pairs, flush, ESTIMATE_NS)
        else:
            print(f"wrong: {shape} at {width}: off by {off:.2g}")
    found = fractions(copies, timers)
    del pairs, timers, copies
    torch.cuda.empty_cache()
    return found


def main(
    out: Annotated[Path | None, typer.Option(help="the table; by default this GPU's")] = None,
    log: Annotated[Path, typer.Option(help="all candidates, a CSV")] = Path(
        "results/tune_cross_entropy.csv"
    ),
) -> None:
    """Measure all candidates; write the fastest of each width."""
    gpu = torch.cuda.get_device_properties(0)
    out, arch = out or TABLES / FOLDER / f"{slug(gpu.name)}.json", 10 * gpu.major + gpu.minor
    asked = {width: list(dict.fromkeys(candidates(width, arch))) for width in widths()}
    of_widths(asked, compiled, measure, out, log)


if __name__ == "__main__":
    typer.run(main)
