"""What does the loss of a vocabulary take, alone and with its gradient in place of the logits?

Predicts no intermediate of the logits' size, so that the loss moves the logits once and the loss
with its gradient twice; torch moves them four times and keeps two copies.  Compared: torch, as it
is and compiled, Liger's function and QuACK's, the latter two in place as well; QuACK's has neither
label smoothing nor a z-loss.  For all terms torch gets the number of rows that count, which ours
and Liger's count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import kernels
from experiments.family import exact
from experiments.family.later import check, launch, torch
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
    Refused,
    ahead,
    chosen,
    in_rows,
)
from experiments.family.others import COMPILED, compiled, copies
from experiments.grids import ACCURACY_SHAPES, ACCURACY_SMALL

if TYPE_CHECKING:
    from torch import Tensor

LOSS, GRADIENT = "loss", "loss and gradient"
# With a part of the loss for all classes, for the log-sum-exp's square, and rows that do not count.
TERMS, TERMS_GRADIENT = "loss, all terms", "loss and gradient, all terms"
# So large, and targets so likely, that a result without one of them passes in no dtype.
SMOOTHING, Z_LOSS, IGNORED = 0.1, 1.5e-3, -100
RAISED = 8.0  # the logit of a row's class
EVERY = 8  # row of so many is ignored
VOCABULARIES = (32_000, 50_257, 128_256, 151_936, 262_144)
SHAPES = (*((4096, cols) for cols in VOCABULARIES), (8192, 32_000), (8192, 128_256))
CASES = (
    *(in_rows(a, "bfloat16", *shape) for a in (LOSS, GRADIENT) for shape in SHAPES),
    *(in_rows(a, "float32", 4096, cols) for a in (LOSS, GRADIENT) for cols in VOCABULARIES),
    *(
        in_rows(asked, dtype, 4096, cols)
        for asked in (TERMS, TERMS_GRADIENT)
        for dtype in ("bfloat16", "float32")
        for cols in (32_000, 128_256)
    ),
)
TARGET_BYTES = 8
ALLOWED = {"float32": 5e-5, "bfloat16": 2e-2}
# torch rounds log-probabilities to the logits' type: one near -12 is off by 2^-5 in bfloat16.
ROUNDED = {"float32": 5e-5, "bfloat16": 5e-2}
EXTRA_SHARE = 0.01


def tensors(case: Case, device: str, seed: int) -> tuple[Tensor, ...]:
    """Planted logits, and a class of each row; where all classes count none is -inf."""
    dtype = getattr(torch, case.dtype)
    if case.asked in (LOSS, GRADIENT):
        return given(case, check.planted(case.rows, case.cols, dtype, device, seed), seed)
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn(case.rows, case.cols, generator=generator, device=device).mul_(4).to(dtype)
    x, target = given(case, x, seed)
    raised = torch.full_like(target, RAISED, dtype=dtype)[:, None]
    return x.scatter_add_(1, target.clamp_min(0)[:, None], raised), target


def given(case: Case, x: Tensor, seed: int) -> tuple[Tensor, ...]:
    """Where a logit is -inf, its class is not the row's: that is 0 instead.  Some are ignored."""
    generator = torch.Generator(x.device).manual_seed(seed + 1)
    target = torch.randint(case.cols, (case.rows,), generator=generator, device=x.device)
    hidden = x.gather(1, target[:, None]).squeeze(1) == -math.inf
    target.masked_fill_(hidden, 0)
    if _with_terms(case):
        target[EVERY - 1 :: EVERY] = IGNORED
    return x, target


def in_float64(case: Case, tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Of a gradient a unit is that of what is subtracted, or of 1/N where that is more."""
    x, target = tensors
    if not _with_gradient(case):
        right = _losses(case, x, target).sum() / _counted(case)
        return right, right.abs().clamp_min(1.0)
    p = torch.softmax(x.double(), -1)
    counts = (target != IGNORED)[:, None]
    one = torch.zeros_like(p).scatter_(1, target.clamp_min(0)[:, None], 1.0)
    unit = p.clamp_min(1 / case.cols) + one
    gradient = p - one
    if _with_terms(case):
        lse = x.double().logsumexp(-1, keepdim=True)
        gradient = p * (1 + 2 * Z_LOSS * lse) - (1 - SMOOTHING) * one - SMOOTHING / case.cols
    return gradient * counts / _counted(case), unit / _counted(case)


def _with_terms(case: Case) -> bool:
    return case.asked in (TERMS, TERMS_GRADIENT)


def _with_gradient(case: Case) -> bool:
    return case.asked in (GRADIENT, TERMS_GRADIENT)


def _counted(case: Case) -> int:
    """Rows that are not ignored."""
    return case.rows - (case.rows // EVERY if _with_terms(case) else 0)


def error(
    case: Case, tensors: tuple[Tensor, ...], result: Any, most: Mapping[str, float] = ALLOWED
) -> Error:
    """Of the mean loss; of a gradient's elements relative to them, or to 1/N where that is more.

    A gradient's is at most ``most``, by the dtype.
    """
    x, target = tensors
    if not _with_gradient(case):
        tolerance, _ = exact.relative(case)
        right, unit = in_float64(case, tensors)
        return Error(float((result.double() - right).abs() / unit), tolerance)
    of_rows = lambda *some: in_float64(case, some)  # noqa: E731
    return Error(exact.largest_error(result, of_rows, x, target), most[case.dtype])


def rounded(case: Case, tensors: tuple[Tensor, ...], result: Any) -> Error:
    return error(case, tensors, result, ROUNDED)


def _losses(case: Case, x: Tensor, target: Tensor) -> Tensor:
    step = max(1, exact.CHUNK_ELEMENTS // x.shape[1])
    parts = zip(x.split(step), target.split(step), strict=True)
    of_rows = _of_rows(case)
    return torch.cat([of_rows(x.double(), target) for x, target in parts])


def _of_rows(case: Case) -> Call:
    """The loss of each row by torch's operators, with all terms where they are asked for."""
    cross_entropy = torch.nn.functional.cross_entropy
    if not _with_terms(case):
        return lambda x, target: cross_entropy(x, target, reduction="none")

    def loss(x: Tensor, target: Tensor) -> Tensor:
        alone = cross_entropy(x, target, reduction="none", label_smoothing=SMOOTHING)
        return alone + Z_LOSS * x.logsumexp(-1).square() * (target != IGNORED)

    return loss


def n_bytes(case: Case) -> int:
    """Logits once, gradients once, and targets; of rows that are ignored gradients alone."""
    logits, gradients = _counted(case) / case.rows, int(_with_gradient(case))
    return round((logits + gradients) * case.tensor_bytes) + TARGET_BYTES * case.rows


def differentiated(loss_of: Call, case: Case) -> Call:
    """``loss_of`` (logits, target), or the gradient of it.

    Logits are no leaf, since what overwrites them refuses one, and the gradient is that of what
    they are a view of: the graph knows the view by what it was before.
    """
    if not _with_gradient(case):
        return loss_of

    def gradient(x: Tensor, target: Tensor) -> Tensor:
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(loss_of(leaf.view(leaf.shape), target), leaf)[0]

    return gradient


def ours(case: Case, device: str) -> Call:
    """The public function, and autograd."""
    terms: dict[str, Any] = {}
    if _with_terms(case):
        terms = {"label_smoothing": SMOOTHING, "z_loss": Z_LOSS}
    in_place = _with_gradient(case)
    return differentiated(
        lambda x, target: kernels.cross_entropy(x, target, inplace=in_place, **terms), case
    )


def steps(case: Case) -> Call:
    """torch's function, or its composition where there are more terms."""
    if not _with_terms(case):
        return torch.nn.functional.cross_entropy
    of_rows, counted = _of_rows(case), _counted(case)
    return lambda x, target: of_rows(x, target).sum() / counted


def in_torch(case: Case, device: str) -> Call:
    return differentiated(steps(case), case)


def by_compiler(case: Case, device: str) -> Call:
    return differentiated(compiled(steps(case), case, device), case)


def liger(case: Case, device: str) -> Call:
    launch.load("liger")
    from liger_kernel.ops.cross_entropy import (  # pyright: ignore[reportMissingImports]
        LigerCrossEntropyFunction,
    )

    terms = (IGNORED, Z_LOSS, SMOOTHING) if _with_terms(case) else ()
    return differentiated(
        lambda x, target: LigerCrossEntropyFunction.apply(x, target, None, *terms)[0], case
    )


def quack(case: Case, device: str) -> Call:
    if _with_terms(case):
        raise Refused("QuACK has neither label smoothing nor a z-loss")
    launch.load("quack")
    from quack.cross_entropy import cross_entropy  # pyright: ignore[reportMissingImports]

    in_place = _with_gradient(case)
    return differentiated(
        lambda x, target: cross_entropy(x, target, inplace_backward=in_place), case
    )


OPERATOR = Operator(
    cases=CASES,
    quick=chosen(CASES[: 2 * len(SHAPES)], 50_257),
    smoke=(
        in_rows(LOSS, "float32", 5, 33), in_rows(GRADIENT, "bfloat16", 5, 33),
        in_rows(TERMS, "float32", 17, 33), in_rows(TERMS_GRADIENT, "bfloat16", 17, 33),
    ),
    tensors=tensors,
    error=error,
    n_bytes=n_bytes,
    implementations=(
        Implementation(OURS, ours, overwrites=True),
        Implementation(TORCH, in_torch, error=rounded),
        Implementation(COMPILED, by_compiler, error=rounded),
        # It asks the GPU how many targets count, and waits.
        Implementation("liger", liger, graph=False, overwrites=True),
        Implementation("quack", quack, overwrites=True),
        *copies(),
    ),
    code=(
        "cross_entropy_api.py", "cross_entropy_ops.py", "frontier/cross_entropy.py",
        "frontier/cross_entropy_*.cu", "frontier/tables/cross_entropy/*.json",
    ),
    accuracy=Accuracy(
        cases=tuple(in_rows(a, "float32", *s) for a in (LOSS, GRADIENT) for s in ACCURACY_SHAPES),
        small=tuple(in_rows(a, "float32", *s) for a in (LOSS, GRADIENT) for s in ACCURACY_SMALL),
        given=given,
        exact=in_float64,
    ),
    aims=(
        Aim(
            "G11.1", "memory of a cross-entropy beyond its logits, of theirs", "extra_share",
            most=EXTRA_SHARE,
        ),
        ahead("G11.2", "a cross-entropy", TORCH),
        ahead("G11.3", "a cross-entropy", COMPILED),
        ahead("G11.4", "a cross-entropy", "liger"),
        ahead("G11.5", "a cross-entropy", "quack"),
    ),
)  # fmt: skip
