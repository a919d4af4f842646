"""Which shape of the frontier's kernels is fastest here?  Writes the table it selects by.

    python -m experiments.tune --out kernels/frontier/tables/nvidia-h200.json --log tune.csv

Every candidate is checked, and then timed in turn with the others and with copy: at tensors of
512 MiB by width, at few rows by number and width, and at batches between.  Widths without edges are
whole vectors; with edges they are one element more; with edges apart, too, as a slice of wider
rows.

--operator measures many rows, of 256 MiB, of a softmax with factors or a mask that leave it as it
is, or of its logarithm, for a table of its own, tables/<operator>/<gpu>.json.  Causal rows are
checked with a mask that hides nothing, and timed with one that hides half.

--rows, --edges, --regimes and --least-cols measure a part: where only some regimes are candidates,
the shape that is chosen today competes with them.  What is not measured stays in the table, but for
widths that are none of WIDTHS any more and lie just below one that is measured.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import torch
import typer
from rich.progress import track

from experiments import timer, tried
from experiments.check import Verdict, check, planted
from experiments.hardware import commit
from experiments.neutral import check_log, neutral, run_neutral, run_triangle
from experiments.pool import pool
from experiments.sweeps import Point
from experiments.sweeps.sweep import COPIES
from experiments.tried import POINT
from experiments.tuning import earlier, fastest_first, fractions, write_table
from kernels.compiled import CompileError, Job
from kernels.cuda_compiler import C_TYPES
from kernels.frontier.compiler import compile_plan
from kernels.frontier.frontier import run
from kernels.frontier.operators import KINDS, TUNED
from kernels.frontier.plans import (
    ALIKE,
    APART,
    EDGES,
    LINE,
    NONE,
    REGIMES,
    VECTOR_BYTES,
    Shape,
    staged_bytes,
    staged_vectors,
    vectors_from_line,
)
from kernels.frontier.select import FEW, MANY, TABLES, Request, possible, select, shape_of
from kernels.launch import architecture, load
from kernels.names import slug
from kernels.registry import DTYPES, ELEMENT_BYTES, variant

TENSOR_BYTES, OPERATOR_BYTES = 2**29, 2**28  # a mask's tensor is as large again
# Vocabularies in use, the last but one of a prime number of columns less one.
NAMED = (1000, 32_000, 50_256, 100_002, 128_256, 151_936, 201_088)
# Where a regime gives way to the next is found to within a third.
WIDTHS = tuple(
    sorted({base * 2**k for base in (32, 48) for k in range(16)} | {*NAMED, 2**20, 2**22})
)
FEW_ROWS = (1, 2, 4, 8, 16, 32, 64, FEW)
FEW_ROWS_WIDTHS = tuple(sorted({2**k for k in (10, 12, *range(14, 21))} | {201_088}))
# So many rows that some multiprocessors get one more than others.
BATCHES = (256, 512, 1024, 2048, 4096)
BATCH_WIDTHS = (1024, 2048, 4096, 8192, 16_384, 32_000, 32_768, 65_536)
LARGE_BATCHES, LARGE_BATCH_WIDTHS = (8192, 16_384), (1024, 2048)
# (rows, columns)
MEASURED = (
    *((MANY, w) for w in WIDTHS),
    *product(FEW_ROWS, FEW_ROWS_WIDTHS),
    *product(BATCHES, BATCH_WIDTHS),
    *product(LARGE_BATCHES, LARGE_BATCH_WIDTHS),
)
OPERATOR_WIDTHS = [2**k for k in range(6, 21)]
REGISTERS, THREADS, BLOCKS = 65_536, 2048, 32  # of a multiprocessor
# Registers that a thread has beside its share of the row, and at least.
OVERHEAD, LEAN = 26, 14
MOST_HELD = 20  # vectors of a thread: more were never fastest, and take long to compile
# Of a block.
WARP_THREADS, BLOCK_THREADS = (32, 64, 128, 256), (32, 64, 128, 256, 512, 1024)
WARP_TOGETHER = (1, 2)
# Up to so many bytes, a warp's block may be over before the GPU has started the next early one.
LATE_BYTES = 2**13
EXCHANGING_TWICE = 128  # threads of a block: fewer than these were never fastest
CLUSTER_BLOCKS, CLUSTER_THREADS = (2, 4, 8, 16), (128, 256, 512, 1024)
GRID_THREADS, GRID_BLOCKS, GRID_SHARES = (256, 512, 1024), (1, 2, 3, 4), (1.0, 0.75, 0.5)
GRID_VECTORS = 4096  # of a row at least
WIDE_CHUNKS = ((512, 27, 8, 8, 4, 1), (512, 27, 8, 8, 4, 4))
COMING = (64, 96, 256)  # KB of chunks on their way to a multiprocessor; the last is any ring
CHUNKS = (
    *((1024, 13, 8, 8, 2, ahead) for ahead in (1, 2, 3)),
    *((1024, 13, 8, 16, 2, ahead) for ahead in (1, 2, 4)),
    *((2048, 6, 8, 16, 1, ahead) for ahead in (1, 2)),
)
# More of a row on chip, for rows of which all rings hold one or two.
DEEP_CHUNKS = ((1024, 13, 4, 16, 2, 6), (2048, 6, 4, 16, 1, 3))
DEEP_VECTORS = 2**18
STAGED_BLOCKS, STAGED_THREADS, STAGED_LEAST_ROWS = (1, 2, 4, 8, 16), (128, 256, 512), 32
STAGED_HELD = (2, 17)  # vectors of a thread, of many rows
STAGED_REGISTERS = (32, 40)  # of a thread, so that it has no or few spills
# Bytes: of a multiprocessor, and what a block takes of it beside its share (the GPU's 1 KB, pairs).
SHARED, BLOCK_SHARED = 228 * 1024, 2048
# Small tickets, so that few rows find many multiprocessors.
SMALL_CHUNKS = ((256, 32, 8, 8, 1, 1), (512, 27, 8, 8, 1, 1), (2048, 6, 4, 16, 1, 1))


def candidates(request: Request) -> Iterator[Shape]:
    """What may be fast for ``request``."""
    rows, cols, size, edges = request.rows, request.cols, request.size, request.edges
    vectors, width = vectors_from_line(cols, size, edges), VECTOR_BYTES // size
    whole = max(1, cols * size // VECTOR_BYTES)
    for lanes in (1, 2, 4, 8, 16, 32):
        if lanes <= whole <= lanes * 32 // width:
            yield from _warps(request, lanes, -(-whole // lanes))
    if edges and cols <= 600:
        for lanes in (8, 16, 32):
            if cols <= 20 * lanes:
                yield from (Shape("tile", (lanes, threads)) for threads in (64, 128))
    for threads in BLOCK_THREADS:
        twice = rows > FEW and threads >= EXCHANGING_TWICE
        for exchanges in (1, 2)[: 1 + twice]:
            shape = Shape("block", (threads,), exchanges=exchanges)
            yield from _held(shape, request, vectors, 255)
    for blocks, threads in product(CLUSTER_BLOCKS, CLUSTER_THREADS):
        yield from _held(Shape("cluster", (threads, blocks)), request, vectors, 128)
    if request.rows >= STAGED_LEAST_ROWS:
        yield from _staged(request)
    if rows <= FEW and vectors >= GRID_VECTORS:
        yield from _in_one_grid(request, vectors, width)
    if vectors >= 4096:
        more = DEEP_CHUNKS if vectors >= DEEP_VECTORS else ()
        more += SMALL_CHUNKS if rows < MANY else WIDE_CHUNKS
        for sizes in (*CHUNKS, *more):
            room = (kilobytes * 1024 // (sizes[0] * VECTOR_BYTES) for kilobytes in COMING)
            for coming in sorted({min(sizes[1], max(sizes[4], each)) for each in room}):
                yield Shape("chunks", (*sizes, coming))


def _warps(request: Request, lanes: int, held: int) -> Iterator[Shape]:
    """Groups of ``lanes``, each with ``held`` vectors of a row or two."""
    most = 32 * request.size // VECTOR_BYTES
    for threads, together in product(WARP_THREADS, WARP_TOGETHER):
        if together == 1 or (together * held <= 2 * most and request.rows > FEW):
            shape = Shape("warp", (lanes, threads), together=together)
            yield shape
            small = threads * together * held * VECTOR_BYTES <= LATE_BYTES
            if small and request.rows == MANY:
                yield replace(shape, early=False)


def _held(shape: Shape, request: Request, vectors: int, most: int) -> Iterator[Shape]:
    """Blocks of ``shape`` by how many a multiprocessor has at least, rows as they came or not.

    A thread has at most ``most`` registers, and a vector at least, or every second one has.
    """
    threads, parts, width = shape.sizes[0], (*shape.sizes, 1)[1], VECTOR_BYTES // request.size
    held = -(-vectors // (threads * parts))
    for raw in (False, True)[: width // 4]:
        registers = OVERHEAD + held * (4 if raw else width)
        enough = registers <= min(most, REGISTERS // threads + 16)
        if vectors >= threads * parts // 2 and held <= MOST_HELD and enough:
            fit = max(1, min(THREADS // threads, REGISTERS // (threads * registers), BLOCKS))
            other = 1 if request.rows <= FEW else max(1, fit - 1)
            # All threads that a multiprocessor has, where they have room for the row.
            full = THREADS // threads
            lean = held * (4 if raw else width) + LEAN <= REGISTERS // THREADS and full <= BLOCKS
            for least in sorted({other, fit, *[full] * lean}):
                yield replace(shape, sizes=(*shape.sizes, least), raw=raw)


def _staged(request: Request) -> Iterator[Shape]:
    """Rows in shared memory: as many blocks of a multiprocessor as it has room for."""
    found: dict[Shape, None] = {}
    for blocks, threads in product(STAGED_BLOCKS, STAGED_THREADS):
        shape = Shape("staged", (threads, blocks, 1))
        arguments = request.cols, request.size, request.edges
        held = staged_vectors(shape, *arguments) / threads
        fit = min(
            SHARED // (staged_bytes(shape, *arguments) + BLOCK_SHARED), THREADS // threads, BLOCKS
        )
        if fit and STAGED_HELD[0] <= held <= STAGED_HELD[1]:
            for registers in STAGED_REGISTERS:
                least = min(fit, REGISTERS // (threads * registers))
                found[replace(shape, sizes=(threads, blocks, least))] = None
    yield from found


def _in_one_grid(request: Request, vectors: int, width: int) -> Iterator[Shape]:
    """Rows of ``vectors`` over so many blocks that a multiprocessor has a few, or fewer."""
    room = (
        (least, int(request.multiprocessors * least * share) // request.rows)
        for least, share in product(GRID_BLOCKS, GRID_SHARES)
    )
    for least, parts in dict.fromkeys(room):
        if parts < 2:
            continue
        share = -(-vectors // (parts * LINE)) * LINE
        for threads in GRID_THREADS:
            held, raw = -(-share // threads), width == 8
            registers = OVERHEAD + held * 4
            fits = registers <= REGISTERS // (threads * least) and threads * least <= THREADS
            if fits and share >= threads // 2:
                yield Shape("grid", (threads, parts, least), raw)


def compiled(shape: Shape, request: Request, arch: str) -> bool:
    """Whether the kernel compiles, to find it in the cache afterwards."""
    plan = shape.plan(request.cols, request.size, request.edges)
    if request.operator:
        given = neutral(request.operator, request.rows, request.cols).types(C_TYPES[request.dtype])
        plan = replace(plan, given=given)
    try:
        compile_plan(plan, Job("frontier", request.dtype, arch))
    except CompileError:
        return False
    return True


def sliced(x: torch.Tensor) -> torch.Tensor:
    """The same rows as all columns but the first of wider ones."""
    wide = x.new_empty(len(x), x.shape[1] + 1)
    wide[:, 1:] = x
    return wide[:, 1:]


def measure(
    dtype: str, rows: int, cols: int, shapes: list[Any], flush: timer.Flush,
    run: Callable[..., Any] = run, placed: Callable[[torch.Tensor], torch.Tensor] | None = None,
    tensor_bytes: int = TENSOR_BYTES, timed: Callable[..., Any] | None = None,
    right: Callable[..., Verdict] = check,
) -> dict[Any, float]:  # fmt: skip
    """Fraction of copy by shape, with which ``run`` is called; without those that are wrong.

    Inputs lie as ``placed`` gives them; copy is that of contiguous tensors. ``timed`` is called in
    ``run``'s place once the shape is checked, by ``right`` of the input and the result.
    """
    rows = min(rows, max(1, tensor_bytes // (cols * ELEMENT_BYTES[dtype])))
    pairs = timer.buffers(Point(dtype, rows, cols), "cuda", seed=1)
    small = planted(min(rows, max(5, 2**22 // cols)), cols, getattr(torch, dtype), "cuda", seed=2)
    copies = [timer.DeviceTimer(load(c), pairs, flush, 1e5, variant(c).graph) for c in COPIES]
    if placed:
        pairs, small = [(placed(x), out) for x, out in pairs], placed(small)
    timers, of_time = {}, timed or run
    for shape in shapes:

        def softmax(x: torch.Tensor, out: torch.Tensor, shape: Any = shape) -> torch.Tensor:
            return of_time(x, out, shape)

        try:
            out = torch.full(small.shape, torch.nan, dtype=small.dtype, device="cuda")
            verdict = right(small, run(small, out, shape))
            softmax(*pairs[0])  # what the first call of these rows needs, no graph shall hold
        except RuntimeError as error:
            print(f"fails: {shape} at {cols} {dtype}: {error}")
            continue
        if verdict.ok:
            timers[shape] = timer.DeviceTimer(softmax, pairs, flush, 3e5)
        else:
            print(f"wrong: {shape} at {cols} {dtype}: {verdict.reason}")
    found = fractions(copies, timers)
    del pairs, timers, copies
    torch.cuda.empty_cache()
    return found


def requests(arch: int, multiprocessors: int) -> Iterator[Request]:
    """What is measured."""
    for dtype, edges, (rows, base) in product(DTYPES, (NONE, ALIKE, APART), MEASURED):
        # A vocabulary's prime number of columns is sliced too.
        cols, size = base + (edges != NONE), ELEMENT_BYTES[dtype]
        if edges == APART and rows < MANY:
            continue
        if edges or cols * size % VECTOR_BYTES == 0:
            lines = edges == NONE and cols * size % (LINE * VECTOR_BYTES) == 0
            yield Request(dtype, rows, cols, edges, edges != APART, lines, arch, multiprocessors)


def requests_of(operator: str, every: Iterable[Request]) -> Iterator[Request]:
    """What of ``every`` is measured of ``operator``."""
    for r in every:
        if r.rows == MANY and r.edges == NONE and r.cols in OPERATOR_WIDTHS:
            yield replace(r, operator=operator)


def point_of(request: Request) -> dict[str, Any]:
    """What an entry of a table is for."""
    rows = request.rows if request.rows < MANY else None
    return {
        "dtype": request.dtype, "edges": EDGES[request.edges], "rows": rows, "cols": request.cols
    }  # fmt: skip


def main(
    out: Annotated[Path | None, typer.Option(help="the table; by default this GPU's")] = None,
    log: Annotated[Path, typer.Option(help="this run's shapes, a CSV")] = Path("results/tune.csv"),
    regimes: Annotated[list[str], typer.Option(help="only these")] = [*REGIMES],  # noqa: B006
    rows: Annotated[list[int], typer.Option(help="only these; 0: many")] = [],  # noqa: B006
    edges: Annotated[list[str], typer.Option(help="only these: none, edges...")] = [],  # noqa: B006
    least_cols: Annotated[int, typer.Option(help="only widths from here on")] = 0,
    operator: Annotated[str, typer.Option(help="log, factors, causal, chosen or added")] = "",
) -> None:
    """Measure all candidates; write the fastest of each width."""
    gpu, arch = torch.cuda.get_device_properties(0), architecture()
    name = slug(gpu.name)
    out = out or TABLES / operator / f"{name}.json"
    numbers = sorted({number % MANY for number, _ in MEASURED})
    for asked_for, there in (
        (regimes, REGIMES), (rows, numbers), (edges, EDGES), ([operator], ("", *KINDS)),
    ):  # fmt: skip
        if odd := [each for each in asked_for if each not in there]:
            raise typer.BadParameter(
                f"{odd[0]} is not measured; known: {', '.join(map(str, there))}"
            )
    some = set(regimes) != set(REGIMES)
    part = bool(some or rows or edges or least_cols)
    every = list(requests(10 * gpu.major + gpu.minor, gpu.multi_processor_count))
    if operator:
        every = list(requests_of(operator, every))
    wanted = [
        r for r in every
        if (not rows or (r.rows if r.rows < MANY else 0) in rows)
        and (not edges or EDGES[r.edges] in edges)
        and r.cols >= least_cols
    ]  # fmt: skip
    entries = {}
    if part:
        kept = earlier(out if out.exists() else TABLES / operator / f"{name}.json")
        entries = {tuple(e[k] for k in POINT): e for e in kept}
    asked: dict[Request, list[Shape]] = {}
    for r in wanted:
        if found := [s for s in candidates(r) if s.regime in regimes and possible(s, r)]:
            entry = entries.get(tuple(point_of(r).values()))
            also = some or operator
            today = [shape_of(entry) if entry else select(r, name)] if also else []
            asked[r] = list(dict.fromkeys(found + today))
    if not asked:
        raise typer.BadParameter("nothing is to measure: no candidate is so wide, of such rows")
    with pool("cuda") as processes:
        jobs = [(shape, request, arch) for request, shapes in asked.items() for shape in shapes]
        done = dict(zip(jobs, processes.map(compiled, *zip(*jobs, strict=True)), strict=True))
    flush, every_told = timer.Flush("cuda"), []
    try:
        for r, shapes in track(asked.items(), "tuning"):
            ready, point = [s for s in shapes if done[s, r, arch]], point_of(r)
            found = measure(
                r.dtype, r.rows, r.cols, ready, flush,
                run_neutral(operator) if operator else run,
                placed=sliced if r.edges == APART else None,
                tensor_bytes=OPERATOR_BYTES if operator else TENSOR_BYTES,
                timed=run_triangle if operator == "causal" else None,
                right=check if operator in ("", *TUNED) else check_log,
            )  # fmt: skip
            every_told += (told := fastest_first(point, found))
            if told:
                for old in _outdated(entries, r, every):
                    del entries[old]
                entries[tuple(point.values())] = told[0]
    finally:  # of a part, what was measured before an interruption stays; half a table is none
        if part or sys.exc_info()[0] is None:
            write_table(out, sorted(entries.values(), key=_order))
            if not part:
                tried.beside(out).unlink(missing_ok=True)
            tried.keep(tried.beside(out), every_told, commit())
    log.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(every_told).to_csv(log, index=False)
    print(f"{len(asked)} numbers of rows and columns, {len(every_told)} candidates, in {out}")


def _outdated(known: Iterable[tuple[Any, ...]], r: Request, every: list[Request]) -> list[Any]:
    """The points of ``known`` between ``r`` and the next narrower of ``every``: no widths now."""
    kind = (r.dtype, r.edges, r.rows)
    narrower = (q.cols for q in every if (q.dtype, q.edges, q.rows) == kind and q.cols < r.cols)
    least, mine = max(narrower, default=0), tuple(point_of(r).values())[:-1]
    return [point for point in known if point[:-1] == mine and least < point[-1] < r.cols]


def _order(entry: dict[str, Any]) -> tuple[Any, ...]:
    dtype, edges, rows, cols = (entry[k] for k in POINT)
    return DTYPES.index(dtype), EDGES.index(edges), rows or MANY, cols


if __name__ == "__main__":
    typer.run(main)
