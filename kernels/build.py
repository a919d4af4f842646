"""Compile every variant ahead of time, without a GPU.

python -m kernels.build --arch sm_90 --out results/build/sm_90
"""

import csv
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated

import typer

from kernels.compiled import Compiled, CompileError, Job, Resources, write
from kernels.cuda_compiler import compile_cuda
from kernels.frontier.compiler import ahead, compile_plan
from kernels.registry import ARCHITECTURES, VARIANTS, variant
from kernels.triton_compiler import compile_triton, specialisations


def jobs(arch: str) -> Iterator[Job]:
    """Every compilation that ``arch`` needs; torch variants and peers need none."""
    for v in VARIANTS:
        for dtype in v.dtypes:
            if v.framework == "cuda":
                yield Job(v.name, dtype, arch)
            elif v.framework == "triton":
                for number in _numbers(v.name, dtype):
                    yield Job(v.name, dtype, arch, number)
            elif v.framework == "frontier" and not v.options:  # its modes are compiled when met
                for number in range(len(ahead(dtype, arch))):
                    yield Job(v.name, dtype, arch, number)


def _numbers(name: str, dtype: str) -> list[int]:
    """The specialisations of ``name`` that are for ``dtype``."""
    try:
        return [n for n, spec in enumerate(specialisations(name)) if dtype in spec.dtypes]
    except CompileError:
        return [0]  # this one job fails in the same way, and is reported


def compiled(job: Job) -> Compiled:
    """The machine code of ``job``, from the cache if the same content was compiled before.

    Raises CompileError with the compiler's message.
    """
    v = variant(job.variant)
    if v.framework == "frontier":
        return compile_plan(ahead(job.dtype, job.arch)[job.number], replace(job, number=0))
    return (compile_cuda if v.framework == "cuda" else compile_triton)(v, job)


def cores() -> int:
    """Cores this process may use.

    Compiling uses them all whatever ``snakemake --cores`` says: that number keeps jobs apart, so
    that none disturbs a measurement.
    """
    return len(os.sched_getaffinity(0))


def _attempt(job: Job) -> tuple[list[Resources], bytes | None]:
    try:
        made = compiled(job)
    except CompileError as error:
        v = variant(job.variant)
        failed = Resources(
            job.arch, v.name, v.framework, job.dtype, status="failed", reason=str(error)
        )
        return [failed], None
    return [kernel.resources for kernel in made.kernels], made.cubin


def build(arch: str, out: Path) -> list[Resources]:
    """Compile every variant for ``arch``; cubins and resources.csv go to ``out``."""
    if arch not in ARCHITECTURES:
        raise ValueError(f"unknown architecture '{arch}'; known: {', '.join(ARCHITECTURES)}")
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.cubin"):
        old.unlink()
    with ProcessPoolExecutor(cores()) as pool:
        results = list(pool.map(_attempt, jobs(arch), chunksize=4))
    for (row, *others), cubin in results:
        if cubin is not None:
            label = "" if others else row.specialisation.replace(" ", "-").replace("=", "")
            name = "-".join(filter(None, (row.variant, row.dtype, label)))
            write(out / f"{name}.cubin", cubin)
    rows = [row for some, _ in results for row in some]
    with (out / "resources.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Resources)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    return rows


def main(
    arch: Annotated[str, typer.Option(help="sm_80, sm_90 or sm_100")],
    out: Annotated[Path, typer.Option(help="folder for the cubins and resources.csv")],
) -> None:
    """Compile every variant for one architecture and report what each uses."""
    try:
        rows = build(arch, out)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    failed = [row for row in rows if row.status == "failed"]
    for row in failed:
        print(f"{row.variant} ({row.dtype}) does not compile for {arch}: {row.reason}")
    print(f"{arch}: {len(rows) - len(failed)} compiled, {len(failed)} failed, in {out}")


if __name__ == "__main__":
    typer.run(main)
