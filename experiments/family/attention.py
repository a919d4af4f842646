"""How far is attention in one kernel of Triton's from PyTorch's, in operations a second?

Predicts it behind FlashAttention and cuDNN, whose warps load and compute side by side, by more at
64 elements a head than at 128, and ahead of the unfused path by the scores that this writes and
reads.  Compared: torch's scaled_dot_product_attention as it chooses and by each of its backends,
and matmul, softmax, matmul.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import kernels
from experiments.family.exact import largest_error
from experiments.family.later import torch
from experiments.family.operator import (
    OURS,
    TORCH,
    Accuracy,
    Call,
    Case,
    Error,
    Implementation,
    Operator,
    Refused,
    ahead,
)

if TYPE_CHECKING:
    from torch import Tensor

TOKENS, WIDTH = 16_384, 2048
LENGTHS = (512, 1024, 2048, 4096, 8192, 16_384)
FULL, CAUSAL = "full", "causal"
# Weights and results are rounded to 16 bits, of which errors are relative to sums of magnitudes.
TOLERANCE = {"bfloat16": 2e-2, "float16": 4e-3, "float32": 1e-4}
CHECKED = 32  # queries of each head, first and last among them
SCORES_BYTES = 2**33  # of the unfused path at most: it has them three times
BACKENDS = {
    "flash": "FLASH_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "math": "MATH",
}


def of_tokens(
    causal: bool, dtype: str, length: int, dim: int, tokens: int = TOKENS, width: int = WIDTH
) -> Case:
    """``tokens`` in sequences of ``length``, ``width`` elements each in heads of ``dim``."""
    shape = (tokens // length, width // dim, length, dim)
    asked = f"{CAUSAL if causal else FULL}, D={dim}"
    return Case(asked, dtype, shape, math.prod(shape[:-1]), length)


def is_causal(case: Case) -> bool:
    return case.asked.startswith(CAUSAL)


CASES = tuple(
    of_tokens(causal, dtype, length, dim)
    for dtype, lengths in (("bfloat16", LENGTHS), ("float16", (1024, 8192)))
    for causal in (False, True)
    for dim in (64, 128)
    for length in lengths
)


def tensors(case: Case, device: str, seed: int) -> tuple[Tensor, ...]:
    """Queries, keys and values (B, H, S, D), normal; some keys are larger: weights differ."""
    q = torch.empty(case.shape, dtype=getattr(torch, case.dtype), device=device)
    generator = torch.Generator(device).manual_seed(seed)
    return _beside(q.normal_(generator=generator), generator)


def _beside(q: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    k, v = (torch.empty_like(q).normal_(generator=generator) for _ in range(2))
    k[:, :, ::10] *= 2
    return q, k, v


def given(case: Case, x: Tensor, seed: int) -> tuple[Tensor, ...]:
    """The same, with queries from ``x``."""
    return _beside(x.view(case.shape), torch.Generator(x.device).manual_seed(seed))


def in_float64(case: Case, tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Of a result a unit is that of the weighted sum of the values' magnitudes."""
    q, k, v = tensors
    seen = torch.ones(case.cols, case.cols, dtype=torch.bool, device=q.device)
    return _weighted(q, k, v, seen.tril() if is_causal(case) else None)


def _weighted(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> tuple[Tensor, Tensor]:
    scores = q.double() @ k.double().mT / math.sqrt(q.shape[-1])
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    weights, v = torch.softmax(scores, -1), v.double()
    return weights @ v, weights @ v.abs()


def error(case: Case, tensors: tuple[Tensor, ...], result: Any) -> Error:
    """Of some queries of every head, relative to the weighted sum of the values' magnitudes."""
    q, k, v = tensors
    length = case.shape[2]
    at = torch.linspace(0, length - 1, min(CHECKED, length), device=q.device).long()
    seen = torch.arange(length, device=q.device) <= at[:, None] if is_causal(case) else None
    heads = (t.flatten(0, 1) for t in (q[:, :, at], k, v))
    value = largest_error(result[:, :, at].flatten(0, 1), partial(_weighted, seen=seen), *heads)
    return Error(value, TOLERANCE[case.dtype], "error relative to the values'")


def n_bytes(case: Case) -> int:
    """Queries, keys and values read, results written."""
    return 4 * case.tensor_bytes


def flops(case: Case) -> float:
    """Two products of the scores that are seen."""
    batches, heads, length, dim = case.shape
    seen = length * (length + 1) / 2 if is_causal(case) else length**2
    return 4.0 * batches * heads * seen * dim


def ours(case: Case, device: str) -> Call:
    """The public function."""
    causal = is_causal(case)
    return lambda q, k, v: kernels.attention(q, k, v, is_causal=causal)


def in_torch(case: Case, device: str) -> Call:
    return partial(torch.nn.functional.scaled_dot_product_attention, is_causal=is_causal(case))


def by_backend(name: str, case: Case, device: str) -> Call:
    if device == "cpu":
        raise Refused("torch's backends are compared on a GPU")
    if name == "math":
        refuse_large(case)
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backend, attention = getattr(SDPBackend, BACKENDS[name]), in_torch(case, device)

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            return attention(q, k, v)

    return call


def refuse_large(case: Case) -> None:
    """Raise Refused where the scores would not fit beside what is made of them."""
    size = case.rows * case.cols * case.size
    if size > SCORES_BYTES:
        raise Refused(f"its scores take {size / 2**30:.0f} GiB, and several copies of them")


def unfused(case: Case, device: str) -> Call:
    refuse_large(case)
    scale = 1 / math.sqrt(case.shape[-1])
    hidden = None
    if is_causal(case):
        square = torch.ones(case.cols, case.cols, dtype=torch.bool, device=device)
        hidden = square.triu(1)

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = (q * scale) @ k.mT
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        return scores.softmax(-1) @ v

    return call


OPERATOR = Operator(
    cases=CASES,
    quick=tuple(
        of_tokens(causal, "bfloat16", 4096, dim) for causal in (False, True) for dim in (64, 128)
    )[::3],
    smoke=(of_tokens(False, "float32", 16, 8, 32, 16), of_tokens(True, "bfloat16", 9, 8, 18, 8)),
    tensors=tensors,
    error=error,
    n_bytes=n_bytes,
    flops=flops,
    implementations=(
        Implementation(OURS, ours),
        Implementation(TORCH, in_torch),
        *(Implementation(f"torch_{name}", partial(by_backend, name)) for name in BACKENDS),
        Implementation("unfused", unfused),
    ),
    code=("attention_api.py", "triton/triton_attention.py"),
    accuracy=Accuracy(
        cases=tuple(
            of_tokens(causal, "float32", length, dim, 2 * length, 2 * dim)
            for causal in (False, True)
            for dim, length in ((64, 781), (128, 1024))
        ),
        small=tuple(of_tokens(causal, "float32", 33, 8, 66, 16) for causal in (False, True)),
        given=given,
        exact=in_float64,
        # Of queries, which are no scores.
        cols=lambda case: case.shape[-1],
        but=("shifted by 1e4", "-inf masks"),
    ),
    aims=(
        ahead("G15.1", "attention", TORCH),
        ahead("G15.2", "attention", "torch_flash"),
        ahead("G15.3", "attention", "torch_efficient"),
        ahead("G15.4", "attention", "unfused"),
    ),
)
