"""Tangents, torch.func and what is compiled of both on the GPU, where kernels have no rules."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close

from kernels import attention, cross_entropy, log_softmax, softmax, topk_softmax
from tests.kernels.test_transforms import TRANSFORMS

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:.*(attention goes through|vmap)")]
TARGET = torch.tensor([1, -100, 0])
Function = Callable[[Tensor], Any]


def composed_attention(query: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return functional.scaled_dot_product_attention(query, query, query)


PAIRS: dict[str, tuple[Function, Function, tuple[int, ...]]] = {
    "softmax": (softmax, lambda x: torch.softmax(x, -1), (3, 5)),
    "log_softmax": (
        lambda x: log_softmax(x, scale=0.5), lambda x: torch.log_softmax(0.5 * x, -1), (3, 5)
    ),
    "cross_entropy": (
        lambda x: cross_entropy(x, TARGET.cuda()),
        lambda x: functional.cross_entropy(x, TARGET.cuda()), (3, 5),
    ),
    "topk_softmax": (
        lambda x: topk_softmax(x, 3)[0], lambda x: torch.softmax(x, -1).topk(3).values, (3, 5)
    ),
    "attention": (lambda q: attention(q, q, q), composed_attention, (1, 2, 4, 64)),
}  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_transforms_are_those_of_the_composition(name: str, transform: str, dtype: torch.dtype):
    mine, theirs, shape = PAIRS[name]
    of, x = TRANSFORMS[transform], torch.randn(shape, device="cuda", dtype=dtype)
    assert_close(of(mine)(x), of(theirs)(x), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("transform", ["jvp", "forward_ad", "grad", "hessian"])
@pytest.mark.parametrize("name", PAIRS)
def test_they_are_so_in_a_compiled_graph(name: str, transform: str):
    torch._dynamo.reset()
    mine, theirs, shape = PAIRS[name]
    of, x = TRANSFORMS[transform], torch.randn(shape, device="cuda")
    compiled = torch.compile(of(mine), fullgraph=True, backend="aot_eager")
    assert_close(compiled(x), of(theirs)(x), atol=1e-4, rtol=1e-4)
