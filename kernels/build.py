"""Compile every variant ahead of time, without a GPU.

    python -m kernels.build --arch sm_90 --out results/build/sm_90

--known takes an earlier resources.csv: what has the same content key there, of sources, options and
compiler, would give the same rows, and is not compiled again.  kernels/resources/ has one for each
architecture, made with the compilers of constraints.txt.
"""

import csv
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from kernels.ahead import ahead
from kernels.compiled import Compiled, CompileError, Job, Resources, write
from kernels.cuda_compiler import compile_cuda, cuda_key
from kernels.frontier.compiler import compile_plan, plan_key
from kernels.registry import ARCHITECTURES, VARIANTS, variant
from kernels.triton_compiler import compile_triton, specialisations, triton_key

KEY = "content_sha256"
COLUMNS = [*(f.name for f in fields(Resources)), KEY]
Row = dict[str, Any]  # of resources.csv


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


def content_key(job: Job) -> str:
    """What decides the rows of ``job``; empty where its file does not even import."""
    v = variant(job.variant)
    try:
        if v.framework == "frontier":
            return plan_key(ahead(job.dtype, job.arch)[job.number], replace(job, number=0))
        return (cuda_key if v.framework == "cuda" else triton_key)(v, job)
    except CompileError:
        return ""


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


def rows_by_key(table: Path) -> dict[str, list[Row]]:
    """The rows of an earlier resources.csv by content key; raises ValueError if it is none."""
    with table.open(newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            raise ValueError(f"{table} is no resources.csv of today: expected {','.join(COLUMNS)}")
        found: dict[str, list[Row]] = {}
        for row in reader:
            found.setdefault(row[KEY], []).append(row)
    return found


def build(arch: str, out: Path, known: Path | None = None) -> list[Row]:
    """Compile every variant for ``arch``; cubins and resources.csv go to ``out``.

    What the resources.csv ``known`` has is not compiled, and has no cubin.  Raises ValueError where
    there is no such architecture, or ``known`` is no resources.csv.
    """
    if arch not in ARCHITECTURES:
        raise ValueError(f"unknown architecture '{arch}'; known: {', '.join(ARCHITECTURES)}")
    before = rows_by_key(known) if known else {}
    before.pop("", None)  # failed
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.cubin"):
        old.unlink()
    keys = {job: content_key(job) for job in jobs(arch)}
    new = [job for job, key in keys.items() if key not in before]
    with ProcessPoolExecutor(cores()) as pool:
        made = dict(zip(new, pool.map(_attempt, new, chunksize=4), strict=True))
    rows: list[Row] = []
    for job, key in keys.items():
        if job not in made:
            rows += before[key]
            continue
        some, cubin = made[job]
        if cubin is not None:
            label = "" if some[1:] else some[0].specialisation.replace(" ", "-").replace("=", "")
            name = "-".join(filter(None, (some[0].variant, some[0].dtype, label)))
            write(out / f"{name}.cubin", cubin)
        rows += [{**asdict(row), KEY: key if cubin else ""} for row in some]
    with (out / "resources.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return rows


def main(
    arch: Annotated[str, typer.Option(help="sm_80, sm_90 or sm_100")],
    out: Annotated[Path, typer.Option(help="folder for the cubins and resources.csv")],
    known: Annotated[Path | None, typer.Option(help="an earlier resources.csv")] = None,
) -> None:
    """Compile every variant for one architecture and report what each uses."""
    try:
        rows = build(arch, out, known)
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
    failed = [row for row in rows if row["status"] == "failed"]
    for row in failed:
        print(f"{row['variant']} ({row['dtype']}) does not compile for {arch}: {row['reason']}")
    print(f"{arch}: {len(rows) - len(failed)} compiled, {len(failed)} failed, in {out}")


if __name__ == "__main__":
    typer.run(main)
