"""Which shape of kernel is fastest down columns?  Writes the table that a softmax of them goes by.

    python -m experiments.tune_columns --out kernels/frontier/tables/columns/nvidia-h200.json \
        --log tune_columns.csv

Candidates hold the rows of a strip, or read them twice in bands; each is checked, and timed in turn
with the rule's choice and with copy.  Where the rule's is faster, it stands, and the table has no
entry.
"""

from pathlib import Path
from typing import Annotated, NamedTuple

import pandas as pd
import torch
import typer
from rich.progress import track

from experiments import timer
from experiments.check import check
from experiments.columns_candidates import candidates
from experiments.pool import pool
from experiments.sweeps import Point
from experiments.sweeps.sweep import COPIES
from experiments.tuning import fastest_first, fractions, write_table
from kernels.compiled import CompileError, Job
from kernels.frontier.columns import softmax
from kernels.frontier.columns_layout import Columns
from kernels.frontier.columns_plans import FOLDER, chosen
from kernels.frontier.compiler import compile_plan
from kernels.frontier.plans import VECTOR_BYTES, Shape
from kernels.frontier.select import TABLES
from kernels.launch import architecture, load
from kernels.names import slug
from kernels.registry import ELEMENT_BYTES, variant

# Both 16-bit types go by what bfloat16 took.
DTYPES = ("float32", "bfloat16")
# (outer, rows, places): squares of S3's exercise and those between, wide and tall ones, inner
# dimensions, and wide ones whose rows begin 64 bytes on in memory's pieces, float32's 128.
SHAPES = (
    *((1, n, n) for n in (1024, 2048, 3072, 4096, 6144, 8192)),
    *((1, n, 2**26 // n) for n in (64, 128, 256, 512, 1024, 2048, 4096)),
    *((1, n, 2**26 // n) for n in (16_384, 32_768, 65_536, 131_072)),
    *((32, n, 512) for n in (512, 1024, 2048, 4096)),
    *((1, n, 2**26 // n + 32) for n in (64, 128, 256, 512, 1024, 2048, 4096)),
)
ESTIMATE_NS = 1e5


class Tensors(NamedTuple):
    """What is measured."""

    dtype: str
    outer: int
    cols: int
    inner: int

    @property
    def columns(self) -> Columns:
        return Columns(*self[1:], self.cols * self.inner, self.inner)

    @property
    def size(self) -> int:
        return ELEMENT_BYTES[self.dtype]

    def shapes(self) -> list[Shape]:
        """The candidates."""
        return list(dict.fromkeys(candidates(self.columns, self.size, VECTOR_BYTES)))


def compiled(shape: Shape, tensors: Tensors, arch: str) -> bool:
    """Whether the kernel compiles without a spill, to find it in the cache afterwards."""
    plan = chosen(shape, tensors.columns, tensors.size, VECTOR_BYTES, log=False).plans[0]
    try:
        made = compile_plan(plan, Job("frontier", tensors.dtype, arch))
    except CompileError:
        return False
    return made.kernels[0].resources.spill_bytes == 0


def measure(
    tensors: Tensors, shapes: list[Shape], flush: timer.Flush
) -> dict[Shape | None, float]:  # fmt: skip
    """Fraction of copy by shape, None for the rule's, without those that are wrong."""
    dtype, *lies = tensors
    outer, cols, inner = lies
    flat = timer.buffers(Point(dtype, outer * cols, inner), "cuda", seed=1)
    copies = [timer.DeviceTimer(load(c), flat, flush, 5e4, variant(c).graph) for c in COPIES]
    pairs = [(x.view(lies), out.view(lies)) for x, out in flat]
    timers: dict[Shape | None, timer.DeviceTimer] = {}
    for shape in (None, *shapes):

        def down(x: torch.Tensor, out: torch.Tensor, shape: Shape | None = shape) -> torch.Tensor:
            return softmax(x, 1, out, shape=shape)

        x, out = pairs[0]
        try:
            down(x, out.fill_(torch.nan))
        except RuntimeError as error:
            print(f"fails: {shape} at {tensors}: {error}")
            continue
        some = slice(0, max(1, 2**22 // cols))
        verdict = check(*(t[-1, :, some].T.contiguous() for t in (x, out)))
        if verdict.ok and not bool(out.isnan().any()):
            timers[shape] = timer.DeviceTimer(down, pairs, flush, ESTIMATE_NS)
        else:
            print(f"wrong: {shape} at {tensors}: {verdict.reason}")
    found = fractions(copies, timers)
    del flat, pairs, timers, copies
    torch.cuda.empty_cache()
    return found


def main(
    out: Annotated[Path | None, typer.Option(help="the table; by default this GPU's")] = None,
    log: Annotated[Path, typer.Option(help="all candidates, a CSV")] = Path(
        "results/tune_columns.csv"
    ),
) -> None:
    """Measure all candidates; write the fastest of each tensor."""
    gpu, arch = torch.cuda.get_device_properties(0), architecture()
    out = out or TABLES / FOLDER / f"{slug(gpu.name)}.json"
    every = (Tensors(dtype, *shape) for dtype in DTYPES for shape in SHAPES)
    asked = {tensors: tensors.shapes() for tensors in every}
    with pool("cuda") as processes:
        jobs = [(shape, tensors, arch) for tensors, shapes in asked.items() for shape in shapes]
        done = dict(zip(jobs, processes.map(compiled, *zip(*jobs, strict=True)), strict=True))
    flush, entries, told = timer.Flush("cuda"), [], []
    # What stands in a table already would stand in the rule's place.
    earlier = out.read_bytes() if out.exists() else None
    out.unlink(missing_ok=True)
    try:
        for tensors, shapes in track(asked.items(), "tuning"):
            found = measure(tensors, [s for s in shapes if done[s, tensors, arch]], flush)
            rule = found.pop(None, 0.0)
            ranked = fastest_first(tensors._asdict(), {s: f for s, f in found.items() if s})
            told += [{**tensors._asdict(), "regime": "rule", "fraction_of_copy": rule}, *ranked]
            entries += [entry for entry in ranked[:1] if entry["fraction_of_copy"] > rule]
    except BaseException:  # half a table is none
        if earlier is not None:
            out.write_bytes(earlier)
        raise
    log.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(told).to_csv(log, index=False)
    write_table(out, entries)
    print(f"{len(asked)} tensors, {len(told)} candidates, in {out} and {log}")


if __name__ == "__main__":
    typer.run(main)
