"""Which of Triton's kernels serves a row: the fastest that was measured on this GPU, or a rule.

``python -m experiments.tune_triton`` measures, and writes tables/<gpu>.json.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernels.registry import ELEMENT_BYTES
from kernels.triton import triton_grid, triton_held
from kernels.triton.triton_grid import Dealt
from kernels.triton.triton_held import Held

TABLES = Path(__file__).parent / "tables"
DEFAULT = "nvidia-h200"  # serves GPUs that have no table of their own


@dataclass(frozen=True)
class Shape:
    """A kernel and what is chosen for it beside a row's width.

    held    sizes and ``raw`` are those of Held
    grid    sizes and ``raw`` are those of Dealt
    online  sizes = ()
    """

    regime: str
    sizes: tuple[int, ...] = ()
    raw: bool = False

    @property
    def held(self) -> Held:
        return Held(*self.sizes, raw=self.raw)

    @property
    def dealt(self) -> Dealt:
        return Dealt(*self.sizes, raw=self.raw)


ONLINE = Shape("online")


@dataclass(frozen=True)
class Request:
    """What is asked for.  In the interpreter there are no ``multiprocessors``."""

    dtype: str
    cols: int
    edges: bool
    multiprocessors: int
    threads: int  # that a multiprocessor holds

    @property
    def size(self) -> int:
        return ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True)
class Entry:
    """The fastest shape for rows of ``cols``, and how near to copy it came."""

    cols: int
    shape: Shape
    fraction_of_copy: float


Table = Mapping[tuple[str, bool], tuple[Entry, ...]]  # by dtype and edges, in order of cols


@cache
def table(gpu: str) -> Table:
    """The measured table of ``gpu``, or that of DEFAULT; empty where neither was measured."""
    paths = (TABLES / f"{name}.json" for name in (gpu, DEFAULT))
    path = next((path for path in paths if path.exists()), None)
    entries: dict[tuple[str, bool], list[Entry]] = {}
    for row in json.loads(path.read_text())["entries"] if path else ():
        shape = Shape(row["regime"], tuple(row["sizes"]), row["raw"])
        entry = Entry(row["cols"], shape, row["fraction_of_copy"])
        entries.setdefault((row["dtype"], row["edges"]), []).append(entry)
    return {key: tuple(sorted(some, key=lambda e: e.cols)) for key, some in entries.items()}


def select(request: Request, gpu: str) -> Shape:
    """The shape for ``request`` on ``gpu`` (a slug)."""
    entries = table(gpu).get((request.dtype, request.edges), ())
    # At the next width that was measured, or at the last.
    for entry in entries[bisect_left([e.cols for e in entries[:-1]], request.cols) :][:1]:
        if possible(entry.shape, request):
            return entry.shape
    return _by_rule(request)


def possible(shape: Shape, request: Request) -> bool:
    """Whether ``shape`` can serve ``request``."""
    cols, size, edges = request.cols, request.size, request.edges
    match shape.regime:
        case "held":
            held = shape.held
            vectors = held.vectors(cols, size, edges)
            # What is read twice is never a row's last.
            return vectors <= held.room(size) and (not held.twice or held.twice + 2 <= vectors)
        case "grid":
            dealt = shape.dealt
            parts, _ = dealt.deal(cols, size, edges)
            lanes, programs = 32 * dealt.warps, dealt.programs * request.multiprocessors
            return parts <= min(lanes, programs) and lanes * dealt.programs <= request.threads
    return True


def _by_rule(request: Request) -> Shape:
    """A shape that serves any row on any GPU, and in the interpreter."""
    held = triton_held.rule(request.cols, request.size, request.edges)
    dealt = triton_grid.rule(request.size)
    for shape in (Shape("held", held[:5], held.raw), Shape("grid", dealt[:3], dealt.raw)):
        if possible(shape, request):
            return shape
    return ONLINE
