"""Softmaxes with factors, logarithms and masks, in every regime that has them."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, product

import torch
from torch import Tensor

from experiments.check import planted
from experiments.launches import Gpu
from experiments.layout import LAYOUTS, Layout
from experiments.placed import placed
from experiments.watched.case import ELEMENTS, Case, astride, rows_of, softmax_fault
from kernels.cuda_compiler import C_TYPES
from kernels.frontier import frontier
from kernels.frontier.operators import Causal, Matrix, Operator
from kernels.frontier.operators import matrix as matrix_of
from kernels.frontier.plans import HOPPER_REGIMES, HOPPERS, UNMASKED_REGIMES, VECTOR_BYTES, Shape
from kernels.frontier.select import MANY, Request, select
from kernels.operators import composed
from kernels.registry import DTYPES, ELEMENT_BYTES

# Powers of two: what is compared in float64 is then rounded where the kernel rounds.
TIMES, AFTER = 0.125, 2.0
_ANY_MATRIX = Matrix(False, 1, 1, (0, 0, 0), 1)
BOTH, LOG_OF_BOTH = Operator(times=TIMES, after=AFTER), Operator(True, TIMES, AFTER)
FACTORS = {"logarithm": Operator(True), "factors": BOTH, "logarithm and factors": LOG_OF_BOTH}
MASKS = {
    "causal": replace(BOTH, mask=Causal(1, 1)),
    "boolean mask": replace(BOTH, mask=replace(_ANY_MATRIX, boolean=True)),
    "added mask": replace(BOTH, mask=_ANY_MATRIX),
    "logarithm and added mask": replace(LOG_OF_BOTH, mask=_ANY_MATRIX),
}
# A shape of each regime, and columns: of whole vectors, and not.
SHAPES = {
    Shape("warp", (32, 64)): (256, 501),
    Shape("tile", (8, 128)): (63, 63),
    Shape("block", (256, 1)): (4096, 6001),
    Shape("block", (256, 1), raw=True): (4096, 6001),
    Shape("cluster", (256, 4, 1)): (8192, 9001),
    Shape("staged", (512, 1, 1)): (4096, 6001),
    Shape("grid", (512, 5, 1)): (16_384, 20_001),
    Shape("chunks", (1024, 13, 8, 8, 2, 1, 3)): (32_768, 50_257),
    Shape("stream", (1024,)): (20_000, 20_001),
}
# What has a table of its own has thresholds of its own.  Not each in every dtype: racecheck takes
# its time, and kernels of float16 differ from bfloat16's in a conversion.
ASTRIDE = {
    "factors": (("factors", ("float32", "bfloat16")), ("logarithm", ("bfloat16",))),
    "masks": (
        ("causal", ("bfloat16",)), ("boolean mask", ("float32",)),
        ("added mask", ("float32", "bfloat16")),
    ),
}  # fmt: skip
CONTIGUOUS, OFF, APART = LAYOUTS[0], LAYOUTS[4], LAYOUTS[5]


def factors(gpu: Gpu) -> Iterator[Case]:
    """Astride the thresholds of factors and of logarithms, and each regime with each of them."""
    for asked, dtypes in ASTRIDE["factors"]:
        yield from _astride(asked, dtypes, gpu)
    yield from _regimes(FACTORS, gpu)


def masks(gpu: Gpu) -> Iterator[Case]:
    """The same of each kind of mask."""
    for asked, dtypes in ASTRIDE["masks"]:
        yield from _astride(asked, dtypes, gpu)
    yield from _regimes(MASKS, gpu)


def _astride(asked: str, dtypes: tuple[str, ...], gpu: Gpu) -> Iterator[Case]:
    for dtype in dtypes:
        size = ELEMENT_BYTES[dtype]

        def shape_of(cols: int, dtype: str = dtype) -> Shape:
            kind = {**FACTORS, **MASKS}[asked].kind
            request = Request(
                dtype, MANY, cols, 0, contiguous=True, lines=False, arch=gpu.arch,
                multiprocessors=gpu.multiprocessors, operator=kind,
            )  # fmt: skip
            return select(request, gpu.name)

        for cols in astride(shape_of, VECTOR_BYTES // size):
            yield _case(asked, shape_of(cols), dtype, cols, CONTIGUOUS)


def _regimes(operators: dict[str, Operator], gpu: Gpu) -> Iterator[Case]:
    layouts, dtypes = cycle((CONTIGUOUS, OFF, APART)), cycle(DTYPES)
    for (shape, (whole, odd)), asked in product(SHAPES.items(), operators):
        here = shape.regime not in HOPPER_REGIMES or gpu.arch in HOPPERS
        if not here or (operators[asked].mask and shape.regime in UNMASKED_REGIMES):
            continue
        dtype, layout = next(dtypes), next(layouts)
        if shape.regime == "tile":
            layout = CONTIGUOUS
        if asked == next(iter(operators)):
            next(dtypes)  # the turns of a regime are not those of the one before
        yield _case(asked, shape, dtype, odd if layout is not CONTIGUOUS else whole, layout)


def _case(asked: str, shape: Shape, dtype: str, cols: int, layout: Layout) -> Case:
    operator = {**FACTORS, **MASKS}[asked]
    rows = 4 * (rows_of(cols, most=24) // 4) or (4 if cols <= ELEMENTS else 2)
    plan = shape.plan(cols, ELEMENT_BYTES[dtype], layout.edges(cols, ELEMENT_BYTES[dtype]))
    plan = replace(plan, given=operator.types(C_TYPES[dtype]))

    def launch(device: str, seed: int) -> str:
        return run(operator, shape, dtype, rows, cols, layout, device, seed)

    return Case(f"{asked}, {layout.name}", dtype, rows, cols, (plan,), launch)


def run(
    asked: Operator, shape: Shape, dtype: str, rows: int, cols: int, layout: Layout, device: str,
    seed: int,
) -> str:  # fmt: skip
    """Launch what is ``asked``, whose mask says only of what kind it is; what is wrong, or ''."""
    tensors = placed(layout, rows, cols, getattr(torch, dtype), device, seed)
    before = tensors.x.clone()
    mask, seen = mask_of(asked, rows, cols, tensors.x, seed + 1)
    given = before.double() * asked.times
    if mask is not None and mask.dtype != torch.bool:
        # Summed in float32 and rounded to the input's dtype, as operators of PyTorch do it.
        summed = before.float() * asked.times + mask.reshape(rows, cols).float()
        given = summed.to(before.dtype).double()
    elif seen is not None:
        given = given.masked_fill(~seen, -torch.inf)
    if device == "cpu":
        whole = seen if mask is None else mask.reshape(rows, cols)
        y = composed(before, whole, -1, None, asked.log, asked.times, asked.after, False)
        tensors.out.copy_(y)
    else:
        told = _told(asked, mask, cols)
        frontier.softmax(
            tensors.x, tensors.out, shape=shape, operator=replace(asked, mask=told),
            mask=mask,
        )  # fmt: skip
    if reason := softmax_fault(given, tensors.out, dtype, asked.log, asked.after):
        return reason
    if not layout.in_place and not torch.equal(before, tensors.x):
        return "it changed its input"
    return "" if tensors.surroundings_untouched() else "it wrote outside of its rows"


def mask_of(
    asked: Operator, rows: int, cols: int, x: Tensor, seed: int
) -> tuple[Tensor | None, Tensor | None]:
    """A mask for rows in pairs that share it, as (pairs, 2, 1, cols), and which elements are seen.

    Of a causal one there is only the latter.
    """
    if asked.mask is None:
        return None, None
    if isinstance(asked.mask, Causal):
        # Causal's rows are counted from 0 to 1, and again.
        row = torch.arange(rows, device=x.device)[:, None] % 2
        seen = torch.arange(cols, device=x.device) < row + causal_of(cols).more
        return None, seen
    generator = torch.Generator(x.device).manual_seed(seed)
    ahead = seed % 2  # elements off a vector, or none: two ways to read a mask
    shape = (rows // 2, 1, 1, cols + ahead)
    if asked.mask.boolean:
        of_pairs = torch.empty(shape, device=x.device).uniform_(generator=generator) < 0.5
        of_pairs[..., ahead] = True  # no row is masked throughout
    else:
        of_pairs = planted(rows // 2, cols + ahead, x.dtype, str(x.device), seed).view(shape)
    mask = of_pairs[..., ahead:].expand(rows // 2, 2, 1, cols)
    return mask, mask.reshape(rows, cols) if asked.mask.boolean else None


def causal_of(cols: int) -> Causal:
    """A causal mask of which rows of ``cols`` see a third, in pairs."""
    return Causal(2, 1 + cols // 3)


def _told(asked: Operator, mask: Tensor | None, cols: int) -> Causal | Matrix | None:
    if mask is None:
        return causal_of(cols) if asked.mask else None
    return matrix_of(mask.shape, mask.stride(), mask.dtype == torch.bool)
