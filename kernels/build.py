"""Compile every variant ahead of time, without a GPU, a host compiler or a CUDA installation.

CUDA C++ goes through NVRTC (cuda.core), Triton through its own compiler.  Compiled code is
cached by content: source, options, compiler and architecture.

    python -m kernels.build --arch sm_90 --out results/build/sm_90
"""

import contextlib
import csv
import hashlib
import importlib
import importlib.util
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from kernels.fingerprint import cuda_sources
from kernels.registry import ARCHITECTURES, ROOT, VARIANTS, Variant, variant

CACHE = Path(os.environ.get("SOFTMAX_CACHE", ROOT.parent / "results" / "cache"))
C_TYPES = {"float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}
TRITON_TYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


class CompileError(RuntimeError):
    """A variant did not compile; the message is the compiler's own."""


@dataclass(frozen=True)
class Job:
    """One compilation: a variant, a dtype and, for Triton, the number of its specialisation."""

    variant: str
    dtype: str
    arch: str
    number: int = 0


@dataclass(frozen=True)
class Resources:
    """One row of resources.csv; registers, bytes of spills and of local memory are per thread."""

    arch: str
    variant: str
    framework: str
    dtype: str
    specialisation: str = ""
    cols_held: int = 0
    threads: int = 0
    status: str = "ok"
    reason: str = ""
    registers: int | None = None
    spill_bytes: int | None = None
    static_shared_bytes: int | None = None
    dynamic_shared_bytes: int | None = None
    local_bytes: int | None = None
    code_bytes: int | None = None
    compiler: str = ""


@dataclass(frozen=True)
class Compiled:
    """Machine code of one job: the cubin, the kernel's symbol in it and what it uses."""

    cubin: bytes
    symbol: str
    resources: Resources


def jobs(arch: str) -> Iterator[Job]:
    """Every compilation that ``arch`` needs; torch variants need none."""
    for v in VARIANTS:
        for dtype in v.dtypes:
            if v.framework == "cuda":
                yield Job(v.name, dtype, arch)
            elif v.framework == "triton":
                for number in range(len(_specialisations(v.name))):
                    yield Job(v.name, dtype, arch, number)


def compiled(job: Job) -> Compiled:
    """The machine code of ``job``, from the cache if the same content was compiled before.

    Raises CompileError with the compiler's message.
    """
    v = variant(job.variant)
    if v.framework == "cuda":
        return _cached(_cuda_key(v, job), lambda: _compile_cuda(v, job))
    return _cached(_triton_key(v, job), lambda: _compile_triton(v, job))


def _cached(key: str, compile_now) -> Compiled:
    code, facts = CACHE / f"{key}.cubin", CACHE / f"{key}.json"
    if facts.exists() and code.exists():
        stored = json.loads(facts.read_text())
        return Compiled(code.read_bytes(), stored["symbol"], Resources(**stored["resources"]))
    made = compile_now()
    CACHE.mkdir(parents=True, exist_ok=True)
    _write(code, made.cubin)
    text = json.dumps({"symbol": made.symbol, "resources": asdict(made.resources)})
    _write(facts, text.encode())
    return made


def _write(path: Path, content: bytes) -> None:
    """All of ``content`` or nothing: other processes may be reading."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
        part.write(content)
    os.replace(part.name, path)


def _key(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


# --- CUDA C++ ---------------------------------------------------------------------------------


def _cuda_key(v: Variant, job: Job) -> str:
    sources = [p.read_text() for p in cuda_sources(v.path)]
    return _key(job, v.launch, _nvrtc_version(), *sources)


@cache
def _nvrtc_version() -> str:
    return f"NVRTC {version('nvidia-cuda-nvrtc')}"


@cache
def _cuda_headers() -> str:
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        if (include := Path(folder) / "cu13" / "include").is_dir():
            return str(include)
    raise CompileError(
        "the CUDA 13 headers are missing: install nvidia-cuda-runtime 13.0 (constraints.txt)"
    )


def _compile_cuda(v: Variant, job: Job) -> Compiled:
    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(
        name=v.path.name,
        arch=job.arch,
        std="c++17",
        include_path=[str(v.path.parent), _cuda_headers()],
        ptxas_options=["-v"],
    )
    name, log = f"softmax<{C_TYPES[job.dtype]}>", io.StringIO()
    try:
        program = Program(v.path.read_text(), "c++", options)
        code = program.compile("cubin", name_expressions=(name,), logs=log)
    except Exception as error:  # cuda.core raises several types; each carries NVRTC's log
        raise CompileError(str(error).strip()) from error
    symbol = code.symbol_mapping[name]
    symbol = symbol.decode() if isinstance(symbol, bytes) else symbol
    cubin = bytes(code.code)
    assert v.launch is not None
    threads, shared = v.launch.threads[-1][1], v.launch.block(sys.maxsize)[1]
    row = Resources(
        job.arch, v.name, v.framework, job.dtype,
        threads=threads, dynamic_shared_bytes=shared, compiler=_nvrtc_version(),
        **_ptxas_facts(log.getvalue()), code_bytes=_code_bytes(cubin, symbol),
    )  # fmt: skip
    return Compiled(cubin, symbol, row)


# --- Triton -----------------------------------------------------------------------------------


@cache
def _specialisations(name: str):
    module = importlib.import_module(f"kernels.triton.{variant(name).path.stem}")
    return tuple(module.specialisations())


def _triton_key(v: Variant, job: Job) -> str:
    label = _specialisations(v.name)[job.number].label
    return _key(job.dtype, job.arch, label, version("triton"), v.path.read_text())


def _compile_triton(v: Variant, job: Job) -> Compiled:
    import triton
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    spec = _specialisations(v.name)[job.number]
    kernel = spec.kernel
    signature, constants, attributes = {}, {}, {}
    for position, argument in enumerate(kernel.arg_names):
        if argument in spec.constants:
            signature[argument] = "constexpr"
            constants[(position,)] = spec.constants[argument]
            continue
        # Aligned pointers and strides: what torch allocates for rows of a multiple of 16 columns.
        attributes[(position,)] = [["tt.divisibility", 16]]
        if argument.endswith("_ptr"):
            signature[argument] = f"*{TRITON_TYPES[job.dtype]}"
        else:
            signature[argument] = "i64" if argument.endswith("_stride") else "i32"

    log = io.StringIO()
    target = GPUTarget("cuda", int(job.arch.removeprefix("sm_")), 32)
    source = ASTSource(kernel, signature, constants, attributes)
    with (
        tempfile.TemporaryDirectory() as scratch,
        knobs.cache.scope(),
        knobs.nvidia.scope(),
        contextlib.redirect_stdout(log),
    ):
        knobs.cache.dir = scratch  # a hit in Triton's own cache would print no ptxas report
        knobs.nvidia.dump_ptxas_log = True
        try:
            made = triton.compile(source, target=target, options={"num_warps": spec.num_warps})
        except Exception as error:  # Triton raises many types; the message is what matters
            raise CompileError(f"{type(error).__name__}: {error}") from error
    cubin, symbol = made.asm["cubin"], made.metadata.name
    row = Resources(
        job.arch, v.name, v.framework, job.dtype,
        specialisation=spec.label, cols_held=spec.cols_held, threads=spec.num_warps * 32,
        dynamic_shared_bytes=made.metadata.shared, compiler=f"Triton {version('triton')}",
        **_ptxas_facts(log.getvalue()), code_bytes=_code_bytes(cubin, symbol),
    )  # fmt: skip
    return Compiled(cubin, symbol, row)


# --- What the assembler says ------------------------------------------------------------------


def _ptxas_facts(log: str) -> dict[str, int]:
    """Registers, spills, local and static shared memory out of ``ptxas -v``'s report."""

    def number(pattern: str, default: int | None = None) -> int:
        if match := re.search(pattern, log):
            return int(match[1])
        if default is None:
            raise CompileError(f"ptxas -v did not report '{pattern}'; it said: {log.strip()}")
        return default

    stores, loads = number(r"(\d+) bytes spill stores"), number(r"(\d+) bytes spill loads")
    return {
        "registers": number(r"Used (\d+) registers"),
        "spill_bytes": stores + loads,
        "local_bytes": number(r"(\d+) bytes stack frame"),
        "static_shared_bytes": number(r"(\d+) bytes smem", 0),
    }


def _code_bytes(cubin: bytes, symbol: str) -> int:
    from elftools.elf.elffile import ELFFile

    section = ELFFile(io.BytesIO(cubin)).get_section_by_name(f".text.{symbol}")
    return section["sh_size"]


# --- The whole build --------------------------------------------------------------------------


def _attempt(job: Job) -> tuple[Resources, bytes | None]:
    try:
        made = compiled(job)
    except CompileError as error:
        v = variant(job.variant)
        failed = Resources(
            job.arch, v.name, v.framework, job.dtype, status="failed", reason=str(error)
        )
        return failed, None
    return made.resources, made.cubin


def build(arch: str, out: Path, workers: int) -> list[Resources]:
    """Compile every variant for ``arch``; cubins and resources.csv go to ``out``."""
    if arch not in ARCHITECTURES:
        raise ValueError(f"unknown architecture '{arch}'; known: {', '.join(ARCHITECTURES)}")
    out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(workers) as pool:
        results = list(pool.map(_attempt, jobs(arch), chunksize=4))
    for row, cubin in results:
        if cubin is not None:
            label = row.specialisation.replace(" ", "-").replace("=", "")
            name = "-".join(filter(None, (row.variant, row.dtype, label)))
            _write(out / f"{name}.cubin", cubin)
    rows = [row for row, _ in results]
    with (out / "resources.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Resources)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    return rows


def main(
    arch: Annotated[str, typer.Option(help="sm_80, sm_90 or sm_100")],
    out: Annotated[Path, typer.Option(help="folder for the cubins and resources.csv")],
    workers: Annotated[int, typer.Option(help="processes")] = os.cpu_count() or 1,
) -> None:
    """Compile every variant for one architecture and report what each uses."""
    try:
        rows = build(arch, out, workers)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    failed = [row for row in rows if row.status == "failed"]
    for row in failed:
        print(f"{row.variant} ({row.dtype}) does not compile for {arch}: {row.reason}")
    print(f"{arch}: {len(rows) - len(failed)} compiled, {len(failed)} failed, in {out}")


if __name__ == "__main__":
    typer.run(main)
