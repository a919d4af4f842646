"""What the frontier launches for rows in a layout, compiled ahead on all cores."""

from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import torch

from experiments.launched import Gpu
from experiments.layout import Layout
from experiments.pool import pool
from kernels.compiled import CompileError, Job
from kernels.frontier.compiler import compile_plan
from kernels.frontier.plans import VECTOR_BYTES, Plan, Shape
from kernels.frontier.select import Request, select
from kernels.launch import architecture
from kernels.names import slug
from kernels.registry import ELEMENT_BYTES


def present() -> Gpu:
    """This machine's."""
    facts = torch.cuda.get_device_properties(0)
    return Gpu(slug(facts.name), 10 * facts.major + facts.minor, facts.multi_processor_count)


def chosen(
    layout: Layout, dtype: str, rows: int, cols: int, gpu: Gpu, invariant: bool = False
) -> Shape:
    """What ``gpu`` launches for ``rows`` x ``cols`` placed by ``layout``."""
    edges = layout.edges(cols, ELEMENT_BYTES[dtype])
    request = Request(
        dtype, rows, cols, edges, contiguous=layout.contiguous, lines=False, arch=gpu.arch,
        multiprocessors=gpu.multiprocessors, invariant=invariant,
    )  # fmt: skip
    return select(request, gpu.name)


def widest_dealt(dtype: str, layout: Layout, gpu: Gpu) -> tuple[int, int]:
    """The most columns of a row that goes to chunks, not counted from a line, and the next's step.

    Wider ones are streamed.
    """
    size = ELEMENT_BYTES[dtype]
    step = 1 if layout.edges(VECTOR_BYTES, size) else VECTOR_BYTES // size

    def streamed(steps: int) -> bool:
        return chosen(layout, dtype, 1, steps * step, gpu).regime == "stream"

    widest = bisect_left(range(2**26 // step), True, lo=2**21 // step, key=streamed) - 1
    return widest * step, step


@dataclass(frozen=True)
class Case:
    """A launch of ``shape`` on ``rows`` x ``cols`` elements of ``dtype``, placed by ``layout``."""

    shape: Shape
    dtype: str
    rows: int
    cols: int
    layout: Layout

    @property
    def plan(self) -> Plan:
        size = ELEMENT_BYTES[self.dtype]
        return self.shape.plan(self.cols, size, self.layout.edges(self.cols, size))

    @property
    def plans(self) -> tuple[Plan, ...]:
        return (self.plan,)

    def __str__(self) -> str:
        place = f"{self.dtype} {self.rows} x {self.cols:,}, {self.layout.name}"
        return f"{place}: {self.plan.label}"


class Launched(Protocol):
    """What is compiled ahead: the kernels of elements of ``dtype`` that something launches."""

    @property
    def dtype(self) -> str: ...

    @property
    def plans(self) -> tuple[Plan, ...]: ...


def compile_all(some: Iterable[Launched]) -> None:
    """Compile what will be launched, on all cores: one process would take a second a kernel."""
    asked = list(dict.fromkeys((plan, case.dtype) for case in some for plan in case.plans))
    with pool("cpu") as processes:
        list(processes.map(compiled, *zip(*asked, strict=True), [architecture()] * len(asked)))


def compiled(plan: Plan, dtype: str, arch: str) -> None:
    """Compile the kernel of ``plan``, to be found in the cache; where it fails, its launch will."""
    with suppress(CompileError):
        compile_plan(plan, Job("frontier", dtype, arch))
