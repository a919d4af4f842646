"""attention's masks: fitted and checked as torch's, which computes with them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from kernels.attention_api import attention
from tests.kernels.attention_cases import Shape, random

SHAPE = Shape(2, 4, 2, 5, 9, 64)

pytestmark = pytest.mark.filterwarnings("ignore:attention goes through")


def test_a_mask_of_more_dimensions_loses_nothing():
    x, seen = torch.randn(4, 5, 16), torch.ones(2, 1, 5, 5, dtype=torch.bool)
    compiled = torch.compile(attention, backend="eager")
    for function in (scaled_dot_product_attention, attention, compiled):
        with pytest.raises((RuntimeError, ValueError), match=r"broadcast|expand"):
            function(x, x, x, seen)


def test_a_mask_of_fewer_dimensions_is_broadcast():
    query, key, value = random(SHAPE, torch.float32)
    columns = torch.randn(SHAPE.keys)
    for mask in (columns, columns > 0, torch.tensor(0.5), torch.tensor(True)):
        rows = mask.expand(SHAPE.queries, SHAPE.keys)
        expected = scaled_dot_product_attention(query, key, value, rows, enable_gqa=True)
        assert_close(attention(query, key, value, mask), expected)
        assert_close(attention(query[0], key[0], value[0], mask), expected[0])


@pytest.mark.parametrize("dims", [2, 3, 4, 5])
@pytest.mark.parametrize("variant", [causal_upper_left, causal_lower_right])
def test_torchs_own_causal_masks_are_left_to_it(variant: Callable[[int, int], Tensor], dims: int):
    query, key = torch.randn(2, 1, 3, 5, 16), torch.randn(2, 1, 3, 9, 16)
    query, key = (t[(0,) * (5 - dims)] for t in (query, key))
    mask = variant(5, 9)
    expected = scaled_dot_product_attention(query, key, key, mask)
    torch._dynamo.reset()
    compiled = torch.compile(attention, backend="eager")
    for function in (attention, compiled):
        assert_close(function(query, key, key, mask), expected)
    with pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
        attention(query, key, key, mask, is_causal=True)
    torch._dynamo.reset()


def test_a_refusal_names_every_dtype_that_is_added():
    query, key, value = random(SHAPE, torch.bfloat16)
    mask = torch.zeros(SHAPE.queries, SHAPE.keys)
    assert attention(query, key, value, mask).dtype == torch.bfloat16
    words = r"or of torch\.bfloat16 or torch\.float32 to be added; got torch\.float16: pass"
    with pytest.raises(TypeError, match=words):
        attention(query, key, value, mask.half())


def test_autocast_casts_a_mask_as_well():
    query, key, value = random(SHAPE, torch.float32)
    mask = torch.randn(SHAPE.queries, SHAPE.keys).half()
    with pytest.raises(TypeError, match=r"of torch\.bool, or of torch\.float32 to be added; got"):
        attention(query, key, value, mask)
    with torch.autocast("cpu", torch.bfloat16):
        expected = scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)
        assert_close(attention(query, key, value, mask), expected)


def test_a_masks_gradient_is_torchs():
    query, key, value = random(SHAPE, torch.float32)
    for shape in ((9,), (5, 9), (4, 1, 9)):
        mask = torch.randn(shape, requires_grad=True)
        rows = mask if mask.dim() > 1 else mask[None]
        grads = [
            torch.autograd.grad(y.square().sum(), mask)[0]
            for y in (
                attention(query, key, value, mask),
                scaled_dot_product_attention(query, key, value, rows, enable_gqa=True),
            )
        ]
        assert_close(*grads)


def test_torch_gets_keys_side_by_side(monkeypatch: pytest.MonkeyPatch):
    given: list[Tensor] = []

    def note(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, *others: Any, **told: Any):
        given.append(mask)
        return scaled_dot_product_attention(query, key, value, mask, *others, **told)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", note)
    query, key, value = random(SHAPE, torch.float32)
    full = torch.randn(2, 4, 5, 9)
    for mask in (full[0, 0, 0, 0], full[..., :1], full.mT.contiguous().mT, full[:1, :1, :1], full):
        expected = scaled_dot_product_attention(
            query, key, value, mask.expand(full.shape).contiguous(), enable_gqa=True
        )
        given.clear()
        assert_close(attention(query, key, value, mask), expected)
        assert [(m.shape[-1], m.stride(-1)) for m in given] == [(9, 1)]
    assert given[0] is full
