"""Random rows for the frontier: of every regime, with edges of every kind, in any memory.

Drawn without a GPU, so that a test there counts what a run on one will launch.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import torch
from torch import Tensor

from experiments.check import check
from experiments.launches import Case, Gpu, chosen
from experiments.layout import Layout
from experiments.placed import placed
from kernels.frontier.plans import ALIKE, APART, NONE, VECTOR_BYTES, Shape
from kernels.frontier.select import DEFAULT, STREAM, table
from kernels.registry import DTYPES, ELEMENT_BYTES

COUNT = 1000
GUARD = 64  # elements: a line of memory at least, so that rows lie as they would without
MOST_COLS, MOST_BYTES, MOST_ROWS = 2**21, 2**25, 2**18
# Of a hundred: rows that are given to kernels to which few would go by themselves, inputs of which
# all rows are one, results written in place, rows side by side, and rows so wide that they are
# dealt out, or so narrow that tiles take them.
STREAMED, STAGED, EXPANDED, IN_PLACE, CLOSE, DEALT, NARROW = 4, 4, 5, 10, 50, 8, 12
DEALT_COLS, NARROW_COLS = 2**18, 200
STAGES = sorted(
    {e.shape for some in table(DEFAULT).values() for e in some if e.shape.regime == "staged"},
    key=str,
)


@dataclass(frozen=True)
class Drawn:
    """Rows in memory; ``expanded``: the input's are one row, at a stride of 0."""

    dtype: str
    rows: int
    cols: int
    layout: Layout
    expanded: bool
    forced: Shape | None
    seed: int

    @property
    def lies(self) -> Layout:
        """As the kernel is told."""
        return replace(self.layout, gap_x=-self.cols) if self.expanded else self.layout

    def case(self, gpu: Gpu) -> Case:
        """What is launched on ``gpu``."""
        shape = self.forced or chosen(self.lies, self.dtype, self.rows, self.cols, gpu)
        return Case(shape, self.dtype, self.rows, self.cols, self.lies)

    def __str__(self) -> str:
        told = f"{self.dtype} {self.rows} x {self.cols}, {self.layout}"
        return told + ", expanded" * self.expanded + f", {self.forced}" * bool(self.forced)


def fault(
    one: Drawn, device: str, launch: Callable[[Tensor, Tensor, Shape | None], object]
) -> str:  # fmt: skip
    """What is wrong once ``launch`` has written the softmax of an input; '' if nothing is."""
    dtype = getattr(torch, one.dtype)
    made = placed(one.layout, one.rows, one.cols, dtype, device, one.seed, GUARD)
    x = made.x[:1].expand(one.rows, one.cols) if one.expanded else made.x
    before = x.clone()
    launch(x, made.out, one.forced)
    verdict = check(before, made.out)
    if not verdict.ok:
        return verdict.reason
    if not one.layout.in_place and not torch.equal(before, x):
        return "it changed its input"
    return "" if made.surroundings_untouched() else "it wrote outside of its rows"


def drawn(count: int = COUNT) -> list[Drawn]:
    """So many, all of them different."""
    draw, found = _Draw(Random(1)), {}
    while len(found) < count:
        one = draw.one(len(found))
        found.setdefault(replace(one, seed=0), one)
    return list(found.values())


class _Draw:
    def __init__(self, random: Random) -> None:
        self.random = random

    def one(self, seed: int) -> Drawn:
        random = self.random
        kind, dtype = random.choice((NONE, ALIKE, APART)), random.choice(DTYPES)
        size = ELEMENT_BYTES[dtype]
        width = VECTOR_BYTES // size
        cols = self._log(*self._range())
        if kind == NONE:
            cols = -(-cols // width) * width
        rows = self._log(1, max(1, min(MOST_ROWS, MOST_BYTES // (cols * size))))
        expanded = rows > 1 and self._of_hundred(EXPANDED)
        while True:
            layout = self._layout(kind, width, cols, expanded)
            if rows == 1:  # of which nothing lies a gap away
                layout = replace(layout, gap_x=0, gap_out=0)
            one = Drawn(dtype, rows, cols, layout, expanded, self._forced(cols, size, kind), seed)
            if one.lies.edges(cols, size) == kind:
                return one

    def _forced(self, cols: int, size: int, kind: int) -> Shape | None:
        if self._of_hundred(STREAMED):
            return STREAM
        staged = self.random.choice(STAGES)
        fits = not staged.why_not(cols, size, kind, contiguous=False)
        return staged if fits and self._of_hundred(STAGED) else None

    def _range(self) -> tuple[int, int]:
        if self._of_hundred(DEALT):
            return DEALT_COLS, MOST_COLS
        return (1, NARROW_COLS) if self._of_hundred(NARROW) else (1, MOST_COLS)

    def _layout(self, kind: int, width: int, cols: int, expanded: bool) -> Layout:
        """Elements of any number, whole vectors for NONE, and for ALIKE a like number beside them.

        Where the input is one row, a row of results has to start where that does.
        """
        close = self._of_hundred(CLOSE)
        if kind == APART:
            gaps = (0, 0) if close else (self._odd(), self._odd())
            return Layout("drawn", self._odd(), self._odd(), *gaps)
        before, gap = (0, 0) if kind == NONE else (self._odd(), self._odd())
        if expanded:
            gap = -cols % width
        elif close:
            gap = 0
        x, out = (before + self._whole(width) for _ in range(2))
        gap_x, gap_out = (gap + (0 if close else self._whole(width)) for _ in range(2))
        if not expanded and self._of_hundred(IN_PLACE):
            return Layout("drawn", x, x, gap_x, gap_x, in_place=True)
        return Layout("drawn", x, out, gap_x, gap_out)

    def _odd(self) -> int:
        return self.random.choice((0, 0, 1, 2, 3, 5, 9, 13))

    def _whole(self, width: int) -> int:
        return width * self.random.choice((0, 0, 1, 3))

    def _log(self, least: int, most: int) -> int:
        """A number whose logarithm is as likely to be one as another."""
        return min(most, int(least * ((most + 1) / least) ** self.random.random()))

    def _of_hundred(self, some: int) -> bool:
        return self.random.random() * 100 < some
