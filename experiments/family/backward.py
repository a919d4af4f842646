"""Does the gradient of a softmax, or of its logarithm, reach the speed of adding two tensors?

Predicts 0.95 of torch.add of three tensors of these sizes from 256 to 262,144 columns: gradient and
result are read once, and held in registers of a block or a cluster.  Compared: torch's gradients,
their steps compiled, Liger's and QuACK's (of the softmax alone; Liger's up to 65,536 columns).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from experiments.family import exact
from experiments.family.later import backward, check, launch, operators, torch
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
    filled,
    in_rows,
)
from experiments.family.others import COMPILED, compiled
from experiments.grids import ACCURACY_SHAPES, ACCURACY_SMALL
from experiments.sweeps.sweep import powers

if TYPE_CHECKING:
    from torch import Tensor

SOFTMAX, LOG = "softmax", "log_softmax"
ADD = "add"
TENSOR_BYTES = 2**28
NAMED = (50_257, 128_256)
EVERY, SOME = (*powers(2, 8, 18), *NAMED), (*powers(4, 4, 9), *NAMED)
CASES = tuple(
    filled(asked, dtype, cols, TENSOR_BYTES)
    for asked, dtype, widths in (
        (SOFTMAX, "bfloat16", EVERY),
        (SOFTMAX, "float32", EVERY),
        (LOG, "bfloat16", SOME),
        (LOG, "float32", SOME),
    )
    for cols in sorted(widths)
)


def tensors(case: Case, device: str, seed: int) -> tuple[Tensor, ...]:
    """A gradient, what the softmax (or its logarithm) of planted input gave, and an output."""
    x = check.planted(case.rows, case.cols, getattr(torch, case.dtype), device, seed)
    return given(case, x, seed)


def given(case: Case, x: Tensor, seed: int) -> tuple[Tensor, ...]:
    y = torch.log_softmax(x, -1) if case.asked == LOG else torch.softmax(x, -1)
    generator = torch.Generator(x.device).manual_seed(seed + 1)
    grad = torch.empty_like(x).normal_(generator=generator)
    return grad, y, x  # memory of the input is the output's


def error(case: Case, tensors: tuple[Tensor, ...], result: Any) -> Error:
    """Relative to the magnitudes that are summed: what cancels has no digits to compare."""
    tolerance, least = exact.relative(case)

    def of_rows(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        target, unit = in_float64(case, tensors)
        return target, unit.clamp_min(least)

    return Error(exact.largest_error(result, of_rows, *tensors[:2]), tolerance)


def in_float64(case: Case, tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    g, y = (t.double() for t in tensors[:2])
    if case.asked == LOG:
        p = y.exp_()
        return g - p * g.sum(-1, keepdim=True), g.abs() + p * g.abs().sum(-1, keepdim=True)
    products = g * y
    target = y * (g - products.sum(-1, keepdim=True))
    return target, y * (g.abs() + products.abs_().sum(-1, keepdim=True))


def n_bytes(case: Case) -> int:
    return 3 * case.tensor_bytes


def ours(case: Case, device: str) -> Call:
    """The kernel's own entry: the public way is autograd's, which runs the forward pass too."""
    log = case.asked == LOG
    if device == "cpu":
        return lambda grad, y, out: out.copy_(
            operators.composed_backward(grad, y, -1, y.dtype, log, 1.0, 1.0, False)
        )
    of = backward.Gradient(True, 1.0, 1.0, False) if log else None
    return lambda grad, y, out: backward.softmax_backward(grad, y, out, of)


def in_torch(case: Case, device: str) -> Call:
    aten = torch.ops.aten
    if case.asked == LOG:
        return lambda grad, y, out: aten._log_softmax_backward_data.out(
            grad, y, -1, y.dtype, out=out
        )
    return lambda grad, y, out: aten._softmax_backward_data.out(
        grad, y, -1, y.dtype, grad_input=out
    )


def by_compiler(case: Case, device: str) -> Call:
    def of_softmax(grad: Tensor, y: Tensor, out: Tensor) -> Tensor:
        g, p = grad.float(), y.float()
        return out.copy_(p * (g - (g * p).sum(-1, keepdim=True)))

    def of_logarithm(grad: Tensor, y: Tensor, out: Tensor) -> Tensor:
        g = grad.float()
        return out.copy_(g - y.float().exp() * g.sum(-1, keepdim=True))

    return compiled(of_logarithm if case.asked == LOG else of_softmax, case, device)


def liger(case: Case, device: str) -> Call:
    if case.asked == LOG:
        raise Refused("Liger has no gradient of a log_softmax alone")
    launch.load("liger")
    from liger_kernel.ops.softmax import (  # pyright: ignore[reportMissingImports]
        _softmax_single_block_backward_kernel as kernel,
    )
    from liger_kernel.ops.utils import (  # pyright: ignore[reportMissingImports]
        calculate_settings,
    )

    block, warps = calculate_settings(case.cols)

    def call(grad: Tensor, y: Tensor, out: Tensor) -> Tensor:
        strides = grad.stride(0), y.stride(0), out.stride(0)
        kernel[(case.rows,)](
            grad, strides[0], y, strides[1], out, strides[2], case.cols,
            BLOCK_SIZE=block, num_warps=warps,
        )  # fmt: skip
        return out

    return call


def quack(case: Case, device: str) -> Call:
    if case.asked == LOG:
        raise Refused("QuACK has no gradient of a log_softmax alone")
    launch.load("quack")
    from quack.softmax import _softmax_backward  # pyright: ignore[reportMissingImports]

    def call(grad: Tensor, y: Tensor, out: Tensor) -> Tensor:
        _softmax_backward(grad, y, out)
        return out

    return call


def _added(case: Case, tensors: tuple[Tensor, ...], result: Any) -> Error:
    grad, y, _ = tensors
    same = bool(torch.equal(grad + y, result))
    return Error(0.0 if same else math.inf, 0.0, "difference of a sum")


def _add(case: Case, device: str) -> Call:
    return lambda grad, y, out: torch.add(grad, y, out=out)


OPERATOR = Operator(
    cases=CASES,
    quick=chosen(CASES, 4096, 128_256, dtype="bfloat16"),
    smoke=(in_rows(SOFTMAX, "float32", 5, 33), in_rows(LOG, "bfloat16", 5, 33)),
    tensors=tensors,
    outputs=1,
    error=error,
    n_bytes=n_bytes,
    implementations=(
        Implementation(OURS, ours),
        Implementation(TORCH, in_torch),
        Implementation(COMPILED, by_compiler),
        Implementation("liger", liger),
        Implementation("quack", quack),
        Implementation(ADD, _add, n_bytes=n_bytes, error=_added),
    ),
    code=(
        "frontier/backward.py",
        "frontier/backward_*.cu",
        "frontier/tables/backward/*.json",
    ),
    accuracy=Accuracy(
        cases=tuple(in_rows(a, "float32", *s) for a in (SOFTMAX, LOG) for s in ACCURACY_SHAPES),
        small=tuple(in_rows(a, "float32", *s) for a in (SOFTMAX, LOG) for s in ACCURACY_SMALL),
        given=given,
        exact=in_float64,
    ),
    aims=(
        Aim(
            "G10.1", "fraction of torch.add's speed of gradients", "fraction_of_ceiling",
            least=0.95,
        ),
        ahead("G10.2", "gradients", TORCH),
        ahead("G10.3", "gradients", COMPILED),
        ahead("G10.4", "gradients", "liger"),
        ahead("G10.5", "gradients", "quack"),
    ),
)  # fmt: skip
