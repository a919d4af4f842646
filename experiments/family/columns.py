"""Is a softmax along another dimension than the last as near to copy speed, without transposing?

Predicts 0.9 of copy where strips of adjacent places are held, three quarters of that where rows are
so many, or places so few, that they are read twice; twice torch's speed and more where torch is
below 0.45 of copy.  Compared: torch, compiled too, and by rows: transposed, computed, and
transposed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kernels
from experiments.family import exact
from experiments.family.later import check, torch
from experiments.family.operator import (
    OURS,
    TORCH,
    Accuracy,
    Aim,
    Call,
    Case,
    Error,
    Implementation,
    Operator,
)
from experiments.family.others import COMPILED, compiled, copies

if TYPE_CHECKING:
    from torch import Tensor

SQUARE, TALL, WIDE, INNER = "square", "tall", "wide", "inner"
SHAPES = {
    SQUARE: ((1, 2048, 2048), (1, 4096, 4096), (1, 8192, 8192)),
    TALL: ((1, 1_000_000, 64), (1, 131_072, 512)),
    WIDE: ((1, 64, 1_000_000), (1, 512, 131_072)),
    INNER: ((32, 4096, 512),),
}
SLOW = 0.45


def of_shape(asked: str, dtype: str, shape: tuple[int, int, int]) -> Case:
    """Softmaxes along the middle of (outer, cols, inner)."""
    outer, cols, inner = shape
    return Case(asked, dtype, shape, outer * inner, cols)


CASES = tuple(
    of_shape(asked, dtype, shape)
    for dtype in ("bfloat16", "float32")
    for asked, shapes in SHAPES.items()
    for shape in shapes
)


def tensors(case: Case, device: str, seed: int) -> tuple[Tensor, ...]:
    """Planted input (outer, cols, inner), and an output."""
    x = check.planted(case.rows, case.cols, getattr(torch, case.dtype), device, seed)
    return given(case, x, seed)


def given(case: Case, x: Tensor, seed: int) -> tuple[Tensor, ...]:
    outer, cols, inner = case.shape
    x = x.view(outer, inner, cols).transpose(1, 2).contiguous()
    return x, torch.empty_like(x)


def in_float64(case: Case, tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    target = torch.softmax(tensors[0].double(), 1)
    return target, target


def error(case: Case, tensors: tuple[Tensor, ...], result: Any) -> Error:
    return exact.softmax_error(case, tensors[0].movedim(1, -1), result.movedim(1, -1))


def n_bytes(case: Case) -> int:
    return 2 * case.tensor_bytes


def ours(case: Case, device: str) -> Call:
    """The public function."""
    return lambda x, out: kernels.softmax(x, 1, out=out)


def transposed(case: Case, device: str) -> Call:
    """What a softmax of rows needs: two copies beside it, here torch's."""
    return lambda x, out: out.copy_(x.mT.contiguous().softmax(-1).mT)


def in_torch(case: Case, device: str) -> Call:
    return lambda x, out: torch.softmax(x, 1, out=out)


def by_compiler(case: Case, device: str) -> Call:
    return compiled(lambda x, out: out.copy_(x.softmax(1)), case, device)


OPERATOR = Operator(
    cases=CASES,
    quick=tuple(of_shape(asked, "bfloat16", SHAPES[asked][-1]) for asked in (SQUARE, INNER)),
    smoke=(of_shape(SQUARE, "float32", (1, 9, 7)), of_shape(INNER, "bfloat16", (3, 5, 4))),
    tensors=tensors,
    outputs=1,
    error=error,
    n_bytes=n_bytes,
    implementations=(
        Implementation(OURS, ours),
        Implementation(TORCH, in_torch),
        Implementation(COMPILED, by_compiler),
        Implementation("transposed", transposed),
        *copies(to=-1),
    ),
    code=(
        "api.py", "frontier/columns.py", "frontier/columns_*.cu", "frontier/tables/columns/*.json",
    ),
    accuracy=Accuracy(
        # Held in registers; with edges; read twice.
        cases=tuple(
            of_shape(*asked)
            for asked in (
                (SQUARE, "float32", (1, 1024, 1024)),
                (INNER, "float32", (3, 781, 257)),
                (TALL, "float32", (1, 131_072, 8)),
            )
        ),
        small=(of_shape(INNER, "float32", (3, 33, 5)),),
        given=given,
        exact=in_float64,
    ),
    aims=(
        Aim("G9.1", "fraction of copy along other dimensions", "fraction_of_ceiling", least=0.9),
        Aim(
            "G9.2", "speed over torch's along other dimensions, where that is below 0.45 of copy",
            "speedup_vs_torch", least=2.0, slow=SLOW,
        ),
    ),
)  # fmt: skip
