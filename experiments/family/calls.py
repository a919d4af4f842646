"""What does a caller of a public function wait for at shapes that take the device no time?

Predicts less than torch for a plain call, which goes past PyTorch's dispatcher and finds a prepared
launch, and up to twice torch's where it does not: with out=, along dimension 0, for a logarithm,
with a gradient, whose registration is Python, and for attention, whose checks are, and in float32
all that is added to torch's own.  Compared: torch's functions, called alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import kernels
from experiments.family import attention, backward, exact
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
ATTENTION = "attention(q, k, v)"
DTYPES = ("float32", "bfloat16")
SHAPES = ((1, 128), (8, 128), (64, 128), (64, 1024))  # of the softmaxes: their number and length
# Of sequences of 128 tokens: their number, and heads as the transformer of this project has.
BATCHES, HEADS, DIM = (1, 4, 16), 4, 64
# A gradient rounds the softmax, a sum of its products, and the result.
ROUNDINGS = 3


def of_call(asked: str, dtype: str, rows: int, cols: int) -> Case:
    """A case of ``rows`` softmaxes of ``cols`` elements, which lie as ``asked`` wants them."""
    return Case(asked, dtype, (cols, rows) if asked == DOWN else (rows, cols), rows, cols)


def of_heads(
    dtype: str, batches: int, length: int = 128, heads: int = HEADS, dim: int = DIM
) -> Case:  # fmt: skip
    """A case of attention: queries, keys and values (batches, heads, length, dim)."""
    return Case(ATTENTION, dtype, (batches, heads, length, dim), batches * heads * length, length)


CASES = (
    *(of_call(asked, dtype, *shape) for asked in ASKED for dtype in DTYPES for shape in SHAPES),
    *(of_heads(dtype, batches) for dtype in DTYPES for batches in BATCHES),
)


def tensors(case: Case, device: str, seed: int) -> tuple[Tensor, ...]:
    """Planted input, the gradient of a result, and where a result goes.

    Of attention queries, keys and values, and where a copy of the queries goes.
    """
    if case.asked == ATTENTION:
        q, k, v = attention.tensors(case, device, seed)
        return q, k, v, torch.empty_like(q)
    x = check.planted(case.rows, case.cols, getattr(torch, case.dtype), device, seed)
    if case.asked == DOWN:
        # A copy where (1, n) is as good as contiguous, too: views of bytes ask for a unit stride.
        x = x.t().clone(memory_format=torch.contiguous_format)
    grad = torch.empty_like(x).normal_(generator=torch.Generator(device).manual_seed(seed + 1))
    return x, grad, torch.empty_like(x)


def error(case: Case, tensors: tuple[Tensor, ...], result: Any) -> Error:
    if case.asked == ATTENTION:
        return attention.error(case, tensors[:3], result)
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
    return {GRADIENT: 5, ATTENTION: 4}.get(case.asked, 2) * case.tensor_bytes


def of(module: Callable[[], ModuleType]) -> Callable[[Case, str], Call]:
    """Prepares the calls of torch's functions, or of this project's, which have their names.

    Attention has a name of its own here.
    """

    def prepare(case: Case, device: str) -> Call:
        functions = module()
        in_torch = torch.nn.functional.scaled_dot_product_attention
        attend = kernels.attention if functions is kernels else in_torch

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
            ATTENTION: lambda q, k, v, out: attend(q, k, v),
        }[case.asked]

    return prepare


OPERATOR = Operator(
    cases=CASES,
    quick=tuple(case for case in CASES if case.dtype == "float32" and case.rows == 64),
    smoke=(
        *(of_call(asked, "float32", 3, 17) for asked in ASKED),
        of_heads("float32", 2, 9, heads=2, dim=8),
    ),
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
        "attention_api.py", "attention_eager.py", "triton/triton_attention.py", "unwatched.py",
    ),
    aims=(
        Aim(
            "G12.1", "what callers wait at small shapes: torch's time over ours",
            "speedup_vs_torch", least=1 / 1.5,
        ),
    ),
    waits=True,
)  # fmt: skip
