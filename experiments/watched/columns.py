"""Softmaxes along another dimension than the last, by every kind of plan."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, product

import torch

from experiments.check import planted
from experiments.launches import Gpu
from experiments.watched.case import Case, astride, softmax_fault
from experiments.watched.guarded import Guarded, strides_of
from kernels.frontier import columns as kernels
from kernels.frontier.columns_layout import as_columns, unit_bytes
from kernels.frontier.columns_plans import Choice, choose, chosen, table
from kernels.frontier.plans import HOPPERS, Shape
from kernels.frontier.select import DEFAULT
from kernels.registry import ELEMENT_BYTES

MOST = 2**15  # elements of a tensor
# (dtype, outer, inner, columns at most): units of 16, 16, 8, 4 and 2 bytes; strips that are
# narrower than a line, as wide, and wider.
PLACES = (
    ("float32", 1, 64, 140),
    ("bfloat16", 3, 24, 140),
    ("bfloat16", 2, 4, 260),
    ("float32", 2, 7, 140),
    ("float16", 1, 33, 140),
    ("float32", 1, 8, 4200),
)


@dataclass(frozen=True)
class Lies:
    """Elements before the input and the results, and after each of their slabs and rows."""

    before_x: int = 0
    before_out: int = 0
    gaps_x: tuple[int, int] = (0, 0)
    gaps_out: tuple[int, int] = (0, 0)


# (outer, columns, inner): with gaps, and where rows of 16 bits, too, are read twice.
FAR, READ_TWICE = ((3, 5, 16), (2, 200, 40), (1, 4200, 8), (2, 4200, 7)), (1, 4200, 16)
# The same in bands of one strip, of more pieces than are merged at once.
BANDS = Shape("bands", (16, 1, 32, 1, 1, 0, 0, 1))
DENSE, APART = Lies(), Lies(2, 4, (5, 3), (2, 0))
GAPS = Lies(gaps_x=(16, 8))


def cases(gpu: Gpu) -> Iterator[Case]:
    """Astride the thresholds of the rule, then each shape of the table, and tensors with gaps."""
    logs = cycle((False, True))
    for dtype, outer, inner, most in PLACES:

        def shapes_of(cols: int, d: str = dtype, o: int = outer, i: int = inner) -> object:
            made = _choice(d, (o, cols, i), DENSE, False, gpu)
            return tuple((plan.shape.regime, plan.shape.sizes) for plan in made.plans)

        for cols in astride(shapes_of, most=most):
            yield _case(dtype, (outer, cols, inner), DENSE, next(logs), gpu)
    for dtype, shape in dict.fromkeys(_measured(gpu)):
        unit, lanes, *_ = shape.sizes
        inner = lanes * unit // ELEMENT_BYTES[dtype]
        if (cols := _held_by(shape, dtype, inner)) > 0:
            yield _case(dtype, (1, cols, inner), DENSE, next(logs), gpu, shape)
    for shape, (dtype, lies) in product(FAR, (("float32", GAPS), ("bfloat16", APART))):
        for log in (False, True):
            yield _case(dtype, shape, lies, log, gpu)
    for dtype, log in product(("bfloat16", "float16"), (False, True)):
        yield _case(dtype, READ_TWICE, DENSE, log, gpu)
        yield _case(dtype, READ_TWICE, DENSE, log, gpu, BANDS)


def _measured(gpu: Gpu) -> Iterator[tuple[str, Shape]]:
    known = table(gpu.name) or (table(DEFAULT) if gpu.arch in HOPPERS else ())
    names = {4: ("float32",), 2: ("bfloat16", "float16")}
    turns = {size: cycle(some) for size, some in names.items()}
    yield from ((next(turns[entry.size]), entry.shape) for entry in known)


def _held_by(shape: Shape, dtype: str, inner: int) -> int:
    """Columns that ``shape`` takes, of a small tensor: a row less than all threads have some of."""
    if shape.regime == "bands":
        return MOST // inner - 1
    _, lanes, threads, blocks, *_ = shape.sizes
    together = blocks * threads // lanes
    return min(MOST // inner // together, 3) * together - 1


def _choice(
    dtype: str, shape: tuple[int, int, int], lies: Lies, log: bool, gpu: Gpu,
    by: Shape | None = None,
) -> Choice:  # fmt: skip
    size = ELEMENT_BYTES[dtype]
    columns, to = (as_columns(shape, strides_of(shape, g), 1) for g in (lies.gaps_x, lies.gaps_out))
    assert columns is not None
    assert to is not None
    steps = (columns.outer_stride, columns.step, to.outer_stride, to.step)
    places = (lies.before_x, lies.before_out, columns.inner, *steps)
    unit = unit_bytes(size, *(place * size for place in places))
    if by:
        return chosen(by, columns, size, unit, log)
    return choose(columns, size, unit, log, gpu.arch, gpu.multiprocessors, gpu.name)


def _case(
    dtype: str, shape: tuple[int, int, int], lies: Lies, log: bool, gpu: Gpu,
    by: Shape | None = None,
) -> Case:  # fmt: skip
    outer, cols, inner = shape
    what = f"{'logarithm ' * log}of {outer} x {cols} x {inner}{', with gaps' * (lies != DENSE)}"
    plans = _choice(dtype, shape, lies, log, gpu, by).plans

    def launch(device: str, seed: int) -> str:
        return run(dtype, shape, lies, log, by, device, seed)

    return Case(what, dtype, outer * inner, cols, plans, launch)


def run(
    dtype: str, shape: tuple[int, int, int], lies: Lies, log: bool, by: Shape | None, device: str,
    seed: int,
) -> str:  # fmt: skip
    """Launch a softmax along the middle of ``shape``; what is wrong with it, or ''."""
    (outer, cols, inner), kind = shape, getattr(torch, dtype)
    guarded = Guarded(device)
    values = planted(outer * inner, cols, kind, device, seed).view(outer, inner, cols).mT
    x = guarded.given(values, lies.before_x, (*lies.gaps_x, 0))
    out = guarded.wanted(shape, kind, lies.before_out, (*lies.gaps_out, 0))
    if device == "cpu":
        rows = x.mT.contiguous()  # whose sums torch rounds less often
        out.copy_((torch.log_softmax(rows, -1) if log else torch.softmax(rows, -1)).mT)
    else:
        kernels.softmax(x, 1, out, log, by)
    return softmax_fault(values.mT, out.mT, dtype, log) or guarded.fault()
