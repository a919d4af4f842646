"""One plan to a cubin: through NVRTC, kept by content."""

import os
from collections.abc import Iterable
from pathlib import Path

from kernels.compiled import Compiled, Job, cached, content_key
from kernels.cuda_compiler import C_TYPES, PTXAS_OPTIONS, STANDARD, kernel, nvrtc_version, program
from kernels.fingerprint import cuda_sources
from kernels.frontier.plans import HERE, Plan
from kernels.registry import ELEMENT_BYTES

OPERATORS = HERE / "operators.cuh"
# For tools that watch kernels: what else is defined, where a kernel's files name it.
DEFINES = "SOFTMAX_DEFINES"


def plan_key(plan: Plan, job: Job) -> str:
    """The content key of what compile_plan makes."""
    sources = [path.read_text() for path in sources_of(plan)]
    return content_key(
        job, plan, nvrtc_version(), STANDARD, PTXAS_OPTIONS, *sources, *_defined(sources)
    )


def sources_of(plan: Plan) -> list[Path]:
    """The kernel's file, and all that it includes, of which it is made with what it is given."""
    return list(dict.fromkeys(p for f in (plan.file, *_before(plan)) for p in cuda_sources(f)))


def _before(plan: Plan) -> list[Path]:
    """What stands before the kernel's file, whose kernel is the same for all operators."""
    return [OPERATORS] if plan.given else []


def _defined(sources: Iterable[str]) -> tuple[str, ...]:
    asked = os.environ.get(DEFINES, "").split()
    return tuple(word for word in asked if any(word in text for text in sources))


def compile_plan(plan: Plan, job: Job) -> Compiled:
    """The kernel of ``plan`` for the dtype and architecture of ``job``; raises CompileError."""
    return cached(plan_key(plan, job), lambda: _compile(plan, job))


def _compile(plan: Plan, job: Job) -> Compiled:
    name = plan.expression(C_TYPES[job.dtype])
    defined = _defined(path.read_text() for path in sources_of(plan))
    cubin, symbols, report = program(plan.file, job.arch, [name], defined, _before(plan))
    made = kernel(
        job, "frontier", cubin, report, symbols[name], specialisation=plan.label,
        cols_held=plan.cols_held(ELEMENT_BYTES[job.dtype]), edges=bool(plan.edges),
        threads=plan.threads, dynamic_shared_bytes=plan.ring_bytes,
    )  # fmt: skip
    return Compiled(cubin, (made,))
