"""One plan to a cubin: through NVRTC, kept by content."""

from kernels.compiled import Compiled, Job, cached, content_key
from kernels.cuda_compiler import C_TYPES, PTXAS_OPTIONS, STANDARD, kernel, nvrtc_version, program
from kernels.fingerprint import cuda_sources
from kernels.frontier.backward_plans import backward_plan
from kernels.frontier.plans import VECTOR_BYTES, Plan
from kernels.frontier.select import DEFAULT, Request, select
from kernels.registry import ELEMENT_BYTES

# Widths that stand for the ranges of the table: the others are compiled when they are met.
AHEAD = (64, 63, 1024, 8192, 32_768, 50_257, 131_072, 1_048_576)


def ahead(dtype: str, arch: str) -> tuple[Plan, ...]:
    """What is compiled without a GPU: for many rows of AHEAD columns, and for their gradients."""
    number, size = int(arch.removeprefix("sm_")), ELEMENT_BYTES[dtype]
    found: list[Plan] = []
    for cols in AHEAD:
        edges = cols * size % VECTOR_BYTES != 0
        request = Request(
            dtype, 10**6, cols, edges, contiguous=True, lines=not edges, arch=number,
            multiprocessors=132,
        )  # fmt: skip
        found.append(select(request, DEFAULT).plan(cols, size, edges))
        found.append(backward_plan(cols, size, edges, number))
    return tuple(dict.fromkeys(found))


def plan_key(plan: Plan, job: Job) -> str:
    """The content key of what compile_plan makes."""
    sources = [path.read_text() for path in cuda_sources(plan.file)]
    return content_key(job, plan, nvrtc_version(), STANDARD, PTXAS_OPTIONS, *sources)


def compile_plan(plan: Plan, job: Job) -> Compiled:
    """The kernel of ``plan`` for the dtype and architecture of ``job``; raises CompileError."""
    return cached(plan_key(plan, job), lambda: _compile(plan, job))


def _compile(plan: Plan, job: Job) -> Compiled:
    name = plan.expression(C_TYPES[job.dtype])
    cubin, symbols, report = program(plan.file, job.arch, [name])
    made = kernel(
        job, "frontier", cubin, report, symbols[name], specialisation=plan.label,
        cols_held=plan.cols_held(ELEMENT_BYTES[job.dtype]), edges=bool(plan.edges),
        threads=plan.threads, dynamic_shared_bytes=plan.ring_bytes,
    )  # fmt: skip
    return Compiled(cubin, (made,))
