"""Triton kernels to cubins, ahead of time and without a GPU."""

import contextlib
import importlib
import io
import tempfile
from functools import cache
from importlib.metadata import version
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
from kernels.fingerprint import python_sources
from kernels.registry import Variant, variant
from kernels.specialise import Specialisation

# Pointers and strides as torch allocates them for rows of a multiple of 16 columns.
ALIGNED = [["tt.divisibility", 16]]
TRITON_TYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


@cache
def specialisations(name: str) -> tuple[Specialisation, ...]:
    """What the file of variant ``name`` asks to have compiled; raises CompileError if it can't."""
    v = variant(name)
    try:
        module = importlib.import_module(f"kernels.triton.{v.path.stem}")
        return tuple(module.specialisations(**dict(v.options)))
    except Exception as error:  # a file being written may fail in any way
        raise CompileError(
            f"kernels/{v.file} must import and define specialisations(): "
            f"{type(error).__name__}: {error}"
        ) from error


def triton_key(v: Variant, job: Job) -> str:
    """The content key of what compile_triton makes; raises CompileError as it does."""
    spec = specialisations(v.name)[job.number]
    texts = [path.read_text() for path in python_sources(v.path)]
    told = (*spec.key, [] if spec.plain else ALIGNED)
    return content_key(v.name, job.dtype, job.arch, *told, version("triton"), *texts)


def compile_triton(v: Variant, job: Job) -> Compiled:
    """Specialisation ``job.number`` of ``v``; raises CompileError with Triton's message."""
    return cached(triton_key(v, job), lambda: _compile(v, job))


def _compile(v: Variant, job: Job) -> Compiled:
    from triton.compiler import ASTSource

    spec = specialisations(v.name)[job.number]
    kernel = spec.kernel
    signature, constants, attributes = {}, {}, {}
    for position, argument in enumerate(kernel.arg_names):
        if argument in spec.constants:
            signature[argument] = "constexpr"
            constants[(position,)] = spec.constants[argument]
            continue
        if not spec.plain:
            attributes[(position,)] = ALIGNED
        # Strides too are 32 bits wide, as Triton has them where they fit.
        usual = f"*{TRITON_TYPES[job.dtype]}" if argument.endswith("_ptr") else "i32"
        signature[argument] = spec.types.get(argument, usual)

    source = ASTSource(kernel, signature, constants, attributes)
    made, report = compiled_source(source, int(job.arch.removeprefix("sm_")), spec)
    cubin, symbol = made.asm["cubin"], made.metadata.name
    row = Resources(
        job.arch, v.name, v.framework, job.dtype,
        specialisation=spec.label, cols_held=spec.cols_held, threads=spec.num_warps * 32,
        dynamic_shared_bytes=made.metadata.shared, compiler=f"Triton {version('triton')}",
        **ptxas_facts(report, symbol), code_bytes=code_bytes(cubin, symbol),
    )  # fmt: skip
    return Compiled(cubin, (Kernel(symbol, row),))


def compiled_source(source: Any, arch: int, spec: Specialisation) -> tuple[Any, str]:
    """What Triton makes of ``source`` for ``arch`` (90 for sm_90), and the assembler's report.

    Raises CompileError with Triton's message.
    """
    import triton
    from triton import knobs
    from triton.backends.compiler import GPUTarget

    log = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as scratch,
        knobs.cache.scope(),
        knobs.nvidia.scope(),
        contextlib.redirect_stdout(log),
    ):
        knobs.cache.dir = scratch  # a hit in Triton's own cache would print no ptxas report
        knobs.nvidia.dump_ptxas_log = True
        try:
            options = {"num_warps": spec.num_warps, **spec.options}
            made = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
        except Exception as error:  # Triton raises many types; the message is what matters
            raise CompileError(f"{type(error).__name__}: {error}") from error
    return made, log.getvalue()
