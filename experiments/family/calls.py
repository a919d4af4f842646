"""What does a caller of a public function wait for at shapes that take the device no time?

Predicts less than torch for a plain call, which goes past PyTorch's dispatcher and finds a prepared
launch, and up to twice torch's where it does not: with out=, along dimension 0, for a logarithm,
and with a gradient, whose registration is Python.  Compared: torch's functions, called alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import kernels
from experiments.family import backward, exact
from experiments.family.later import check, torch
from experiments.family.operator import (
    OURS,
    TORCH,
    Aim,
    Call,
    Case,
    Error,
    Implementation,
    Operator,
)
from experiments.family.others import copies

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from torch import Tensor

PLAIN_CALL, INTO, DOWN = "softmax(x)", "softmax(x, out=y)", "softmax(x, dim=0)"
LOG, GRADIENT = "log_softmax(x)", "softmax(x).backward(g)"
ASKED = (PLAIN_CALL, INTO, DOWN, LOG, GRADIENT)
SHAPES = ((1, 128), (8, 128), (64, 128), (64, 1024))  # of the softmaxes: their number and length
# A gradient rounds the softmax, a sum of its products, and the result.
ROUNDINGS = 3


def of_call(asked: str, dtype: str, rows: int, cols: int) -> Case:
    """A case of ``rows`` softmaxes of ``cols`` elements, which lie as ``asked`` wants them."""
    return Case(asked, dtype, (cols, rows) if asked == DOWN else (rows, cols), rows, cols)


CASES = tuple(
    of_call(asked, dtype, *shape)
    for asked in ASKED
    for dtype in ("float32", "bfloat16")
    for shape in SHAPES
)


def tensors(case: Case, device: str, seed: int) -> tuple[Tensor, ...]:
    """Planted input, the gradient of a result, and where a result goes."""
    x = check.planted(case.rows, case.cols, getattr(torch, case.dtype), device, seed)
    if case.asked == DOWN:
        # A copy where (1, n) is as good as contiguous, too: views of bytes ask for a unit stride.
        x = x.t().clone(memory_format=torch.contiguous_format)
    grad = torch.empty_like(x).normal_(generator=torch.Generator(device).manual_seed(seed + 1))
    return x, grad, torch.empty_like(x)


def error(case: Case, tensors: tuple[Tensor, ...], result: Any) -> Error:
    x, grad, _ = tensors
    if case.asked == GRADIENT:
        found = backward.error(case, (grad, x.double().softmax(-1), x), result)
        return replace(found, most=ROUNDINGS * found.most)
    if case.asked == LOG:
        return exact.log_softmax_error(case, x, result)
    if case.asked == DOWN:
        x, result = x.t(), result.t()
    return exact.softmax_error(case, x, result)


def n_bytes(case: Case) -> int:
    return (5 if case.asked == GRADIENT else 2) * case.tensor_bytes


def of(module: Callable[[], ModuleType]) -> Callable[[Case, str], Call]:
    """Prepares the calls of torch's functions, or of those that have their names here."""

    def prepare(case: Case, device: str) -> Call:
        functions = module()

        def with_gradient(x: Tensor, grad: Tensor, out: Tensor) -> Tensor:
            leaf = x.detach().requires_grad_()
            functions.softmax(leaf, -1).backward(grad)
            assert leaf.grad is not None
            return leaf.grad

        return {
            PLAIN_CALL: lambda x, grad, out: functions.softmax(x, -1),
            INTO: lambda x, grad, out: functions.softmax(x, -1, out=out),
            DOWN: lambda x, grad, out: functions.softmax(x, 0),
            LOG: lambda x, grad, out: functions.log_softmax(x, -1),
            GRADIENT: with_gradient,
        }[case.asked]

    return prepare


OPERATOR = Operator(
    cases=CASES,
    quick=tuple(case for case in CASES if case.dtype == "float32" and case.rows == 64),
    smoke=tuple(of_call(asked, "float32", 3, 17) for asked in ASKED),
    tensors=tensors,
    outputs=1,
    error=error,
    n_bytes=n_bytes,
    implementations=(
        Implementation(OURS, of(lambda: kernels)),
        Implementation(TORCH, of(lambda: torch)),
        *copies(to=-1),
    ),
    code=(
        "api.py", "arguments.py", "eager.py", "ops.py", "operators.py", "prepared.py",
        "transforms.py", "frontier/frontier.py", "frontier/backward.py", "frontier/columns.py",
    ),
    aims=(
        Aim(
            "G12.1", "what callers wait at small shapes: torch's time over ours",
            "speedup_vs_torch", least=1 / 1.5,
        ),
    ),
    waits=True,
)  # fmt: skip
