"""What runs under Compute Sanitizer: a regime of the frontier at widths astride its thresholds.

    python -m experiments.sanitized chunks

Or an operator, by its name (experiments/watched), or, of a dtype, the other sides of few rows'
thresholds.  Every result is checked, and so is the memory around it.  PLANTED runs a fault instead.
"""

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from itertools import chain, cycle, islice, pairwise
from pathlib import Path
from typing import Annotated

import torch
import typer
from cuda.core import Device, LaunchConfig, ObjectCode, Stream, launch

from experiments import watched, wrapped
from experiments.check import check
from experiments.launches import Case, Gpu, chosen, present, widest_dealt
from experiments.layout import BY_NAME, CONTIGUOUS, LAYOUTS, Layout
from experiments.placed import placed
from experiments.sanitizer import FEW, NAMES, OPERATORS, PLANTED, RINGS, TOOLS
from kernels.cuda_compiler import program
from kernels.frontier import frontier
from kernels.frontier.plans import ALIKE, APART, REGIMES, VECTOR_BYTES, Shape
from kernels.frontier.select import MANY, STREAM, table
from kernels.launch import architecture
from kernels.registry import ELEMENT_BYTES

FAULTS_FILE = Path(__file__).with_name("planted_faults.cu")
FAULTS = dict(zip(TOOLS, ("OUTSIDE", "RACE", "BARRIER"), strict=True))
# racecheck follows every access to shared memory: seconds a million of them.
NARROW = 512
ELEMENTS = 2**13  # of a tensor, about
LEAST_ROWS = 2
# Vectors that a block of the stream regime takes a trip: it is chosen where no table says so.
STREAMED = 4 * STREAM.sizes[0]
# Of what the widest row that is dealt out is watched: where results lie otherwise it is another.
# Racecheck takes its time for such rows, and 16 bits are 16 bits.
WIDEST = tuple(
    (dtype, BY_NAME[name])
    for name, dtypes in {
        CONTIGUOUS: ("float32", "float16"), "sliced input": ("float32", "bfloat16")
    }.items()
    for dtype in dtypes
)  # fmt: skip


def named(name: str, gpu: Gpu) -> Iterator[Case] | Iterator[watched.Case]:
    """What is launched of a name of NAMES; a KeyError that lists them otherwise."""
    if name in REGIMES:
        return cases(name, gpu)
    if name == RINGS:
        # A row of which all rings are full fills a slot again where a block takes more than others.
        return chain(wrapped.cases(gpu), widest("chunks", gpu))
    if name in FEW:
        return of_few_rows(FEW[name], gpu)
    if name in OPERATORS:
        return watched.OPERATORS[name](gpu)
    raise KeyError(unknown(name))


def unknown(name: str) -> str:
    """A sentence for a name that is none, with those that are."""
    known = ", ".join((*NAMES, PLANTED))
    return f"unknown regime or operator '{name}'; known: {known}"


def cases(regime: str, gpu: Gpu, every: bool = False) -> Iterator[Case]:
    """The launches of ``regime``: on both sides of every width at which the shape changes.

    The layouts take turns where rows are not narrow, and a shape that had none in its dtype comes
    after them.  Of every dtype and kind of edges, one sums without an order.  Of few rows and
    batches a shape is launched once, unless ``every`` threshold of theirs is asked for, in every
    kind of memory that it is for: ``of_few_rows`` has what is missing then.
    """
    seen: set[object] = set()  # cases, shapes, and regimes with edges of a kind
    for late in (False, True):
        for dtype, asked, cols, layout, shape in served(gpu, not late, every):
            rows = max(LEAST_ROWS, min(300, asked, ELEMENTS // cols))
            # What is launched for few rows is launched for several numbers of them, and with edges
            # of several kinds: once will do where its regime was watched with such edges.
            kind = layout.edges(cols, ELEMENT_BYTES[dtype])
            few = asked < MANY and not every
            enough = late or (few and (regime, dtype, kind) in seen)
            if shape.regime != regime or (enough and (shape, dtype) in seen):
                continue
            here = min(rows, asked) if regime == "grid" else rows  # it holds no more at once
            case = Case(shape, dtype, here, cols, layout)
            if case in seen:  # two thresholds of the table may lie side by side
                continue
            yield case
            if (regime, dtype, kind) not in seen:
                unordered = chosen(layout, dtype, asked, cols, gpu, invariant=True)
                yield Case(unordered, dtype, here, cols, layout)
            seen |= {case, (shape, dtype), (regime, dtype, kind)}
    if regime == "stream":
        yield from widest(regime, gpu)
        for dtype, size in ELEMENT_BYTES.items():
            trip = STREAMED * VECTOR_BYTES // size
            for cols, layout in zip((1, trip - 1, trip, trip + 1), LAYOUTS[2:], strict=True):
                for shape in (STREAM, replace(STREAM, invariant=True)):
                    yield Case(shape, dtype, LEAST_ROWS, cols, layout)


def of_few_rows(dtype: str, gpu: Gpu) -> Iterator[Case]:
    """With ``cases`` of all regimes: a kernel of ``dtype`` on every side of every threshold.

    A width's kernel is launched once, whichever numbers of rows and layouts it serves.
    """
    had = {(case.dtype, case.cols, case.plan) for name in REGIMES for case in cases(name, gpu)}
    for case in chain.from_iterable(cases(name, gpu, every=True) for name in REGIMES):
        key = case.dtype, case.cols, case.plan
        if case.dtype == dtype and key not in had:
            had.add(key)
            yield case


def widest(regime: str, gpu: Gpu) -> Iterator[Case]:
    """Of a row beside the widest that is dealt out, which no table has, what ``regime`` takes."""
    for dtype, layout in WIDEST:
        cols, step = widest_dealt(dtype, layout, gpu)
        for near in (cols, cols + step):
            shape = chosen(layout, dtype, 1, near, gpu)
            if shape.regime == regime:
                yield Case(shape, dtype, 1, near, layout)


@cache
def served(gpu: Gpu, in_turn: bool, kinds: bool) -> tuple[tuple[str, int, int, Layout, Shape], ...]:
    """``placed_widths``, and what is launched there: each regime asks for all of them."""
    return tuple(
        (dtype, rows, cols, layout, chosen(layout, dtype, rows, cols, gpu))
        for dtype, rows, cols, layout in placed_widths(gpu, in_turn, kinds)
    )


def placed_widths(
    gpu: Gpu, in_turn: bool, kinds: bool = False
) -> Iterator[tuple[str, int, int, Layout]]:
    """Dtype, rows, columns and layout: ``in_turn`` one layout a width that is not narrow.

    Of ``kinds`` of edges each has its turn.
    """
    turns: dict[tuple[Layout, ...], Iterator[Layout]] = {}
    for dtype, edges, rows, cols in widths(gpu):
        size = ELEMENT_BYTES[dtype]
        for some in ({kind} for kind in sorted(edges)) if kinds else (edges,):
            fitting = tuple(each for each in LAYOUTS if each.edges(cols, size) in some)
            mine = turns.setdefault(fitting, cycle(fitting))
            here = islice(mine, 1) if in_turn and cols > NARROW else fitting
            yield from ((dtype, rows, cols, layout) for layout in here)


def widths(gpu: Gpu) -> Iterator[tuple[str, set[int], int, int]]:
    """Dtype, kinds of edges, rows, and columns: before, at and after each threshold.

    Many rows come first and then narrow ones: what few rows take is watched where it is cheapest.
    """
    found: set[tuple[str, int, int, int]] = set()
    for (dtype, kind, rows), entries in table(gpu.name).items():
        step = 1 if kind else VECTOR_BYTES // ELEMENT_BYTES[dtype]
        ends = [entry.cols for entry, wider in pairwise(entries) if entry.shape != wider.shape]
        near = {end + away * step for end in ends for away in (-1, 0, 1)}
        found |= {(dtype, kind, rows, cols) for cols in near if cols > 0}
    for dtype, kind, rows, cols in sorted(found, key=lambda it: (it[2] != MANY, it[3], it)):
        # One entry serves both where results that lie otherwise were not measured.
        yield dtype, {ALIKE, APART} if kind == ALIKE else {kind}, rows, cols


def run(case: Case | watched.Case, seed: int, guard: int = 0) -> str:
    """What is wrong with the results of ``case``; '' if nothing is.

    Memory ends with the rows, or with so many elements as a ``guard`` (experiments/placed.py).
    """
    if isinstance(case, watched.Case):
        return case.run(seed)
    tensors = placed(
        case.layout, case.rows, case.cols, getattr(torch, case.dtype), "cuda", seed, guard
    )  # fmt: skip
    before = tensors.x.clone()
    few = isinstance(case, wrapped.Wrapped)
    with wrapped.of_few(case.multiprocessors) if few else nullcontext():
        frontier.run(tensors.x, tensors.out, case.shape)
    verdict = check(before, tensors.out)
    if verdict.reason:
        return verdict.reason
    if not case.layout.in_place and not torch.equal(before, tensors.x):
        return "it changed its input"
    return "" if tensors.surroundings_untouched() else "it wrote outside of its rows"


def fault(tool: str) -> None:
    """Launch the kernel in which ``tool`` has something to find."""
    out = torch.zeros(64, device="cuda")
    Device(0).set_current()
    name = f"softmax<{FAULTS[tool]}>"
    cubin, symbols, _ = program(FAULTS_FILE, architecture(), [name])
    kernel = ObjectCode.from_cubin(cubin).get_kernel(symbols[name])
    stream = Stream.from_handle(torch.cuda.current_stream().cuda_stream)
    launch(stream, LaunchConfig(grid=1, block=64), kernel, out.data_ptr())
    torch.cuda.synchronize()


def main(
    name: Annotated[
        str,
        typer.Argument(help=f"{', '.join(NAMES)}, or a fault: {PLANTED}"),
    ],
    tool: Annotated[str, typer.Option(help="whose fault to plant")] = TOOLS[0],
) -> None:
    """Launch every case of NAME, a line each; exit with 1 where a result is wrong."""
    if name == PLANTED:
        fault(tool)
        return
    if name not in NAMES:
        print(unknown(name))
        raise typer.Exit(2)
    wrong = 0
    for seed, case in enumerate(named(name, present())):
        reason = run(case, seed)
        print(f"{case}{': wrong: ' * bool(reason)}{reason}", flush=True)
        wrong += bool(reason)
    sys.exit(int(wrong > 0))


if __name__ == "__main__":
    typer.run(main)
