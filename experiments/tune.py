"""Which shape of the frontier's kernels is fastest here?  Writes the table it selects by.

    python -m experiments.tune --out kernels/frontier/tables/nvidia-h200.json --log tune.csv

Every candidate is checked, and then timed in turn with the others and with copy: at tensors of
512 MiB by width, at few rows by number and width, and at batches between.  Widths without edges are
whole vectors; with edges they are one element more; with edges apart, too, as a slice of wider
rows.  A candidate that was slow at a like place, of the other 16-bit type or with fewer edges, is
not measured again.

--operator measures many rows, of 256 MiB, of a softmax with factors or a mask that leave it as it
is, or of its logarithm, for a table of its own, tables/<operator>/<gpu>.json.  Causal rows are
checked with a mask that hides nothing, and timed with one that hides half.

--numbers, --rows, --edges, --regimes and --least-cols measure a part: where only some regimes are
candidates, the shape that is chosen today competes with them.  What is not measured stays in the
table, but for widths that are none of WIDTHS any more and lie just below one that is measured.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice, product
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import torch
import typer
from rich.progress import track

from experiments import timer, tried
from experiments.candidates import candidates
from experiments.check import Verdict, check, planted
from experiments.neutral import check_log, neutral, run_neutral, run_triangle
from experiments.pool import pool
from experiments.sweeps import Point
from experiments.sweeps.sweep import COPIES
from experiments.tried import POINT
from experiments.tune_places import MEASURED, NUMBERS, OPERATOR_WIDTHS
from experiments.tuning import earlier, fastest_first, fractions, tuned_at, write_table
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
)
from kernels.frontier.select import MANY, TABLES, Request, possible, select, shape_of
from kernels.launch import architecture, load
from kernels.names import slug
from kernels.registry import DTYPES, ELEMENT_BYTES, variant

TENSOR_BYTES, OPERATOR_BYTES = 2**29, 2**28  # a mask's tensor is as large again
SLOW = 0.05
SPARE = 2  # cores on which nothing compiles, for what measures meanwhile


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
    rows: Annotated[list[int], typer.Option(help="only so many; 0: many")] = [],  # noqa: B006
    edges: Annotated[list[str], typer.Option(help="only these: none, edges...")] = [],  # noqa: B006
    least_cols: Annotated[int, typer.Option(help="only widths from here on")] = 0,
    operator: Annotated[str, typer.Option(help="log, factors, causal, chosen or added")] = "",
    numbers: Annotated[str, typer.Option(help="of rows, too: many, few or batches")] = "",
) -> None:
    """Measure what may be fast; write the fastest of each width."""
    gpu, arch = torch.cuda.get_device_properties(0), architecture()
    name = slug(gpu.name)
    out = out or TABLES / operator / f"{name}.json"
    for asked_for, there in (
        (regimes, REGIMES), (rows, sorted(chain(*NUMBERS.values()))), (edges, EDGES),
        ([operator], ("", *KINDS)), ([numbers], ("", *NUMBERS)),
    ):  # fmt: skip
        if odd := [each for each in asked_for if each not in there]:
            raise typer.BadParameter(
                f"{odd[0]} is not measured; known: {', '.join(str(n) for n in there if n != '')}"
            )
    rows = [*rows, *NUMBERS.get(numbers, ())]
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
            asked[r] = found
    if not asked:
        raise typer.BadParameter("nothing is to measure: no candidate is so wide, of such rows")
    today: dict[Request, Shape] = {}
    if some or operator:
        for r in asked:
            entry = entries.get(tuple(point_of(r).values()))
            today[r] = shape_of(entry) if entry else select(r, name)
    flush, every_told = timer.Flush("cuda"), []
    known: dict[tuple[Any, ...], dict[Shape, float]] = {}
    try:
        for r, shapes in _ready(asked, today, known, arch):
            point = point_of(r)
            found = measure(
                r.dtype, r.rows, r.cols, shapes, flush,
                run_neutral(operator) if operator else run,
                placed=sliced if r.edges == APART else None,
                tensor_bytes=OPERATOR_BYTES if operator else TENSOR_BYTES,
                timed=run_triangle if operator == "causal" else None,
                right=check if operator in ("", *TUNED) else check_log,
            )  # fmt: skip
            known[tuple(point.values())] |= found
            every_told += (told := fastest_first(point, found))
            if told:
                for old in _outdated(entries, r, every):
                    del entries[old]
                entries[tuple(point.values())] = told[0]
    finally:  # of a part, what was measured before an interruption stays; half a table is none
        if sys.exc_info()[0] is None or (part and every_told):
            write_table(out, sorted(entries.values(), key=in_order))
            if not part:
                tried.beside(out).unlink(missing_ok=True)
            tried.keep(tried.beside(out), every_told, tuned_at())
    log.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(every_told).to_csv(log, index=False)
    print(f"{len(asked)} numbers of rows and columns, {len(every_told)} candidates, in {out}")


def _ready(
    asked: Mapping[Request, list[Shape]], today: Mapping[Request, Shape],
    known: dict[tuple[Any, ...], dict[Shape, float]], arch: str,
) -> Iterator[tuple[Request, list[Shape]]]:  # fmt: skip
    """The shapes of each request that compile and were not slow where they are ``known``.

    A request comes after its model, and has ``today``'s shape in any case; what it leaves out is
    ``known`` of it, at a speed of 0. What comes next compiles while one is measured: half of the
    time otherwise.
    """
    with pool("cuda", spare=SPARE) as processes:
        turns = sorted({_turn(r) for r in asked})
        for number, turn in enumerate(turns, 1):
            mine = {r: promising(r, asked[r], known) for r in asked if _turn(r) == turn}
            for r, shapes in mine.items():
                left_out = set(asked[r]).difference(shapes)
                known[tuple(point_of(r).values())] = dict.fromkeys(left_out, 0.0)
                mine[r] = list(dict.fromkeys([*shapes, *([today[r]] if r in today else [])]))
            jobs = [(shape, r, arch) for r, shapes in mine.items() for shape in shapes]
            done = iter(processes.map(compiled, *zip(*jobs, strict=True)))
            for r, shapes in track(mine.items(), f"tuning, round {number} of {len(turns)}"):
                ready = list(islice(done, len(shapes)))
                yield r, [shape for shape, fine in zip(shapes, ready, strict=True) if fine]


def promising(
    request: Request, shapes: list[Shape], known: Mapping[tuple[Any, ...], Mapping[Shape, float]]
) -> list[Shape]:
    """Those of ``shapes`` within SLOW of their fastest at the like place, or not asked there.

    Of the candidates kept beside the H200's table it leaves 29% of bfloat16's and half of those
    with edges, and the fastest at all 300 places; at 37 of these that was not asked at the other.
    """
    at_model = known.get(_model(request), {})
    least = max((at_model[s] for s in shapes if s in at_model), default=0.0) * (1 - SLOW)
    return [shape for shape in shapes if at_model.get(shape, least) >= least]


def _model(r: Request) -> tuple[Any, ...]:
    """The point that is measured before, at which most shapes do as at ``r``'s; () if none is."""
    if r.dtype == "bfloat16":
        return tuple(point_of(replace(r, dtype="float16")).values())
    if r.edges == ALIKE:
        return tuple(point_of(replace(r, edges=NONE, cols=r.cols - 1)).values())
    return tuple(point_of(replace(r, edges=ALIKE)).values()) if r.edges == APART else ()


def _turn(r: Request) -> int:
    """How many points are models of ``r``, one of the other."""
    return (r.dtype == "bfloat16") + (NONE, ALIKE, APART).index(r.edges)


def _outdated(known: Iterable[tuple[Any, ...]], r: Request, every: list[Request]) -> list[Any]:
    """The points of ``known`` between ``r`` and the next narrower of ``every``: no widths now."""
    kind = (r.dtype, r.edges, r.rows)
    narrower = (q.cols for q in every if (q.dtype, q.edges, q.rows) == kind and q.cols < r.cols)
    least, mine = max(narrower, default=0), tuple(point_of(r).values())[:-1]
    return [point for point in known if point[:-1] == mine and least < point[-1] < r.cols]


def in_order(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """Where ``entry`` stands in a table."""
    dtype, edges, rows, cols = (entry[k] for k in POINT)
    return DTYPES.index(dtype), EDGES.index(edges), rows or MANY, cols


if __name__ == "__main__":
    typer.run(main)
