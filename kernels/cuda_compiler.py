"""CUDA C++ to cubins through NVRTC (cuda.core): no host compiler, no CUDA installation."""

import importlib.util
import io
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from kernels.compiled import (
    Compiled,
    CompileError,
    Job,
    Resources,
    cached,
    code_bytes,
    content_key,
    ptxas_facts,
)
from kernels.fingerprint import cuda_sources
from kernels.registry import Variant

STANDARD = "c++17"
PTXAS_OPTIONS = ["-v"]
C_TYPES = {"float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}


def compile_cuda(v: Variant, job: Job) -> Compiled:
    """The kernel ``softmax<T>`` of ``v``'s file; raises CompileError with NVRTC's message."""
    sources = [p.read_text() for p in cuda_sources(v.path)]
    key = content_key(job, v.launch, _nvrtc_version(), STANDARD, PTXAS_OPTIONS, *sources)
    return cached(key, lambda: _compile(v, job))


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


def _compile(v: Variant, job: Job) -> Compiled:
    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(
        name=v.path.name,
        arch=job.arch,
        std=STANDARD,
        include_path=[str(v.path.parent), _cuda_headers()],
        ptxas_options=PTXAS_OPTIONS,
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
    assert v.launch is not None, f"{v.name} has no launch policy in the registry"
    threads, shared = v.launch.block(sys.maxsize)
    row = Resources(
        job.arch, v.name, v.framework, job.dtype,
        threads=threads, dynamic_shared_bytes=shared, compiler=_nvrtc_version(),
        **ptxas_facts(log.getvalue()), code_bytes=code_bytes(cubin, symbol),
    )  # fmt: skip
    return Compiled(cubin, symbol, row)
