"""Which of Triton's kernels is fastest here, by width?  Writes what triton_frontier selects by.

    python -m experiments.tune_triton --out kernels/triton/tables/nvidia-h200.json --log tune.csv

As experiments.tune does for the frontier's.  All that was tried is kept beside the table; --cols
measures some widths, the table's or others, leaves the table as it is, and of all other widths what
was tried before.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated

import pandas as pd
import torch
import typer
from rich.progress import track

from experiments import timer, tried
from experiments.pool import pool
from experiments.tune import measure
from experiments.tuning import fastest_first, tuned_at, write_table
from kernels.frontier.plans import EDGES
from kernels.frontier.select import MANY
from kernels.names import slug
from kernels.registry import DTYPES, ELEMENT_BYTES
from kernels.triton._rows import VECTOR_BYTES, vectors_of
from kernels.triton._select import ONLINE, TABLES, Request, Shape, possible
from kernels.triton.triton_frontier import run, specialise

WIDTHS = (
    *(64, 128, 256, 512, 1000, 1024, 2048, 4096, 8192, 16_384, 24_576, 32_768),
    *(50_256, 65_536, 98_304, 131_072, 262_144, 2**20, 2**22),
)
# Warps, programs of a multiprocessor, vectors a lane that are kept while others are read twice.
KEPT = ((16, 1, 20), (16, 1, 24), (16, 2, 8), (16, 2, 10), (32, 1, 8), (32, 1, 10))
# Of so many vectors some may be read twice; and of so many a lane, as compiling them takes long.
LEAST_TWICE, MOST_TWICE, MOST_VECTORS = 5000, 40_000, 40
# Vectors a lane, warps, programs of a multiprocessor.
DEALT = ((8, 16, 2), (12, 16, 1), (22, 16, 1), (16, 8, 2), (10, 8, 3), (8, 8, 4))
# From here on a row may be dealt, or streamed (vectors).
LEAST_DEALT, LEAST_STREAMED = 6000, 2**17


def candidates(cols: int, size: int, edges: bool) -> Iterator[Shape]:
    """What may be fast for rows of ``cols`` elements of ``size`` bytes."""
    whole = vectors_of(cols, size, edges=False)
    for lanes in (2, 4, 8, 16, 32):
        vectors = -(-whole // lanes)
        if lanes <= whole and vectors <= (8 if lanes == 32 else 4):
            for warps, most in ((1, 4), (1, 8), (4, 4), (4, 8)):
                rows = 32 * warps * max(1, most // vectors) // lanes
                yield Shape("held", (lanes, 1 << (rows.bit_length() - 1), warps, 1))
    for warps in (2, 4, 8, 16, 32):
        vectors, most = -(-vectors_of(cols, size, edges) // (32 * warps)), 2 * max(8, warps)
        # With few vectors a lane, exponentials may stay; with many, words must.
        for raw in {vectors > 3, vectors > 8} if size == 2 else {False}:
            for programs in {1, _fit(warps, vectors, size, raw)} if 2 <= vectors <= most else ():
                yield Shape("held", (32 * warps, 1, warps, programs), raw)
    if LEAST_TWICE <= whole <= MOST_TWICE:
        for warps, programs, kept in KEPT:
            vectors = -(-vectors_of(cols, size, edges) // (32 * warps))
            if kept < vectors <= MOST_VECTORS:
                yield Shape("held", (32 * warps, 1, warps, programs, vectors - kept), size == 2)
    if whole >= LEAST_DEALT:
        yield from (Shape("grid", sizes, raw=size == 2) for sizes in DEALT)
    if whole >= LEAST_STREAMED:
        yield ONLINE


def _fit(warps: int, vectors: int, size: int, raw: bool) -> int:
    """The most programs of a multiprocessor whose lanes have registers for ``vectors``."""
    fit = 1
    for programs in range(2, 64 // warps + 1):
        if Shape("held", (32 * warps, 1, warps, programs), raw).held.room(size) >= vectors:
            fit = programs
    return fit


def compiled(shape: Shape, dtype: str, cols: int) -> str:
    """Call the kernel once, to find it in Triton's cache afterwards; says why it fails, if so."""
    x = torch.zeros(2, cols, dtype=getattr(torch, dtype), device="cuda")
    try:
        run(x, torch.empty_like(x), shape)
        torch.cuda.synchronize()
    except Exception as error:  # Triton raises many types; the message is what matters
        return f"{shape} at {cols} {dtype}: {type(error).__name__}: {error}"
    return ""


def main(
    out: Annotated[Path | None, typer.Option(help="the table; by default this GPU's")] = None,
    log: Annotated[Path, typer.Option(help="all candidates, a CSV")] = Path("results/tune.csv"),
    cols: Annotated[list[int], typer.Option(help="only these widths, no table")] = [],  # noqa: B006
) -> None:
    """Measure all candidates; write the fastest of each width."""
    if bad := [each for each in cols if each < 1]:
        raise typer.BadParameter(f"{bad[0]} columns; a row has one at least")
    gpu = torch.cuda.get_device_properties(0)
    out = out or TABLES / f"{slug(gpu.name)}.json"
    limits = gpu.multi_processor_count, gpu.max_threads_per_multi_processor
    asked: dict[tuple[str, bool, int], list[Shape]] = {}
    for dtype in DTYPES:
        size = ELEMENT_BYTES[dtype]
        for edges, each in product((False, True), cols or WIDTHS):
            width = each if cols else each + edges
            if edges == (width * size % VECTOR_BYTES > 0):
                request = Request(dtype, width, edges, *limits)
                shapes = [s for s in candidates(width, size, edges) if possible(s, request)]
                asked[dtype, edges, width] = list(dict.fromkeys(shapes))
    # Widths share compilations.
    jobs = {
        (dtype, *specialise(shape, width, ELEMENT_BYTES[dtype], edges).key): (shape, dtype, width)
        for (dtype, edges, width), shapes in asked.items()
        for shape in shapes
    }
    with pool("cuda") as processes:
        for failure in filter(None, processes.map(compiled, *zip(*jobs.values(), strict=True))):
            print(failure)
    flush, entries, rows = timer.Flush("cuda"), [], []
    for (dtype, edges, width), shapes in track(asked.items(), "tuning"):
        point = {"dtype": dtype, "edges": edges, "cols": width}
        told = fastest_first(point, measure(dtype, MANY, width, shapes, flush, run))
        rows += told
        entries += told[:1]
        log.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(rows).to_csv(log, index=False)
    if not cols:
        write_table(out, entries)
    points = ({**row, "rows": None, "edges": EDGES[row["edges"]]} for row in rows)
    tried.keep(tried.beside(out), points, tuned_at())
    print(f"{len(entries)} widths, {len(rows)} candidates, in {out} and {log}")


if __name__ == "__main__":
    typer.run(main)
