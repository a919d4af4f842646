"""CUDA C++ to cubins through NVRTC (cuda.core): no host compiler, no CUDA installation."""

import importlib.util
import io
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

from kernels.compiled import (
    Compiled,
    CompileError,
    Job,
    Kernel,
    Resources,
    cached,
    code_bytes,
    content_key,
    ptxas_facts,
)
from kernels.fingerprint import cuda_sources
from kernels.registry import Launch, Variant

STANDARD = "c++17"
PTXAS_OPTIONS = ["-v"]
C_TYPES = {"float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}


@dataclass(frozen=True)
class Instance:
    """One kernel of a file, for one tile where the kernel holds its row.

    ``whole`` says for which rows (Launch.whole); None where there is one form for all.
    """

    kernel: str
    tile: tuple[int, int] | None
    whole: bool | None = None

    def expression(self, dtype: str) -> str:
        """As C++ names it: softmax<float> or softmax<float, threads, vectors, whole>."""
        whole = () if self.whole is None else ("true" if self.whole else "false",)
        return f"{self.kernel}<{', '.join(map(str, (C_TYPES[dtype], *(self.tile or ()), *whole)))}>"

    @property
    def edges(self) -> bool:
        """Whether another form takes the rows that need no look at their ends."""
        return self.whole is False

    @property
    def label(self) -> str:
        """Empty for the one kernel of a file that streams its row."""
        words = [self.kernel] if self.tile or self.kernel != "softmax" else []
        if self.tile:
            words += [f"threads={self.tile[0]}", f"vectors={self.tile[1]}"]
        return " ".join([*words, "edges"] if self.edges else words)


def instances(launch: Launch) -> tuple[Instance, ...]:
    """What a variant's file is compiled to: its kernels, for each of its tiles and forms."""
    forms = (True, False) if launch.whole else (None,)
    return tuple(
        Instance(*made) for made in product(launch.kernels, launch.tiles or (None,), forms)
    )


def cuda_key(v: Variant, job: Job) -> str:
    """The content key of what compile_cuda makes."""
    sources = [p.read_text() for p in cuda_sources(v.path)]
    return content_key(job, v.launch, nvrtc_version(), STANDARD, PTXAS_OPTIONS, *sources)


def compile_cuda(v: Variant, job: Job) -> Compiled:
    """Every instance of ``v``'s file; raises CompileError with NVRTC's message."""
    return cached(cuda_key(v, job), lambda: _compile(v, job))


@cache
def nvrtc_version() -> str:
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


def program(
    path: Path,
    arch: str,
    names: Iterable[str],
    defines: tuple[str, ...] = (),
    before: Iterable[Path] = (),
) -> tuple[bytes, Mapping[str, str], str]:
    """A cubin with the kernels ``names`` of a file, their symbols, and the assembler's report.

    Headers ``before``, of the same folder, are included first.
    Raises CompileError with NVRTC's message.
    """
    from cuda.core import Program, ProgramOptions

    names = tuple(names)
    options = ProgramOptions(
        name=path.name,
        arch=arch,
        std=STANDARD,
        include_path=[str(path.parent), _cuda_headers()],
        ptxas_options=PTXAS_OPTIONS,
        define_macro=list(defines) or None,
        device_as_default_execution_space=True,  # lambdas that take lambdas have no word for it
        # NVRTC 13 keeps programs in the driver's cache: a cubin from there has no report.
        no_cache=True,
    )
    log = io.StringIO()
    try:
        included = "".join(f'#include "{header.name}"\n' for header in before)
        made = Program(included + path.read_text(), "c++", options)
        code = made.compile("cubin", name_expressions=names, logs=log)
    except Exception as error:  # cuda.core raises several types; each carries NVRTC's log
        raise CompileError(str(error).strip()) from error
    symbols = {name: code.symbol_mapping[name] for name in names}
    text = {n: s.decode() if isinstance(s, bytes) else s for n, s in symbols.items()}
    return bytes(code.code), text, log.getvalue()


def kernel(
    job: Job, framework: str, cubin: bytes, report: str, symbol: str, **facts: Any
) -> Kernel:
    """Kernel ``symbol`` of a program and what it uses; ``facts`` are more fields of Resources."""
    row = Resources(
        job.arch, job.variant, framework, job.dtype, compiler=nvrtc_version(),
        **ptxas_facts(report, symbol), code_bytes=code_bytes(cubin, symbol), **facts,
    )  # fmt: skip
    return Kernel(symbol, row)


def _compile(v: Variant, job: Job) -> Compiled:
    assert v.launch is not None, f"{v.name} has no launch policy in the registry"
    # In one program: reading the headers takes longer than compiling a kernel.
    wanted = {i.expression(job.dtype): i for i in instances(v.launch)}
    cubin, symbols, report = program(v.path, job.arch, wanted, v.launch.defines)
    kernels = []
    for name, instance in wanted.items():
        held = v.launch.cols_held(instance.tile)
        threads, shared = v.launch.block(held or sys.maxsize)
        facts = {
            "specialisation": instance.label, "cols_held": held, "edges": instance.edges,
            "threads": threads, "dynamic_shared_bytes": shared,
        }  # fmt: skip
        kernels.append(kernel(job, v.framework, cubin, report, symbols[name], **facts))
    return Compiled(cubin, tuple(kernels))
