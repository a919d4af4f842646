"""Gradients, tangents and batches of every public function are those of torch's composition.

In float64; without a GPU. Where kernels are told to compute, in test_api.py and its neighbours.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close

from kernels import attention, cross_entropy, log_softmax, sample, softmax, topk_softmax

pytestmark = pytest.mark.filterwarnings("ignore:.*(no CUDA GPU|attention goes through|vmap)")
Function = Callable[[Tensor], Any]

torch.manual_seed(0)
X, MASK = torch.randn(3, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
TARGET = torch.tensor([1, -100, 0])
QUERY, KEY = torch.randn(2, 1, 2, 4, 8, dtype=torch.float64)


class Pair(NamedTuple):
    mine: Function
    theirs: Function
    x: Tensor = X


def composed_attention(query: Tensor) -> Tensor:
    scores = query @ KEY.mT / 8**0.5
    hidden = torch.ones(4, 4).triu(1) > 0
    return torch.softmax(scores.masked_fill(hidden, -torch.inf), -1) @ KEY


def composed_losses(x: Tensor) -> Tensor:
    loss = functional.cross_entropy(x, TARGET, reduction="none", label_smoothing=0.1)
    return loss + torch.where(TARGET != -100, 0.01 * torch.logsumexp(x, -1) ** 2, 0.0)


PAIRS = {
    "softmax": Pair(softmax, partial(torch.softmax, dim=-1)),
    "softmax's options": Pair(
        lambda x: softmax(x, 0, mask=MASK, scale=0.5, factor=3.0),
        lambda x: 3.0 * torch.softmax(0.5 * x + MASK, 0),
    ),
    "softmax's mask": Pair(
        lambda mask: softmax(X, mask=mask), lambda mask: torch.softmax(X + mask, -1), MASK
    ),
    "log_softmax": Pair(
        lambda x: log_softmax(x, mask=MASK > 0, factor=2.0).clamp(min=-50.0),
        lambda x: (
            (2.0 * torch.log_softmax(x.masked_fill(MASK <= 0, -torch.inf), -1)).clamp(min=-50.0)
        ),
    ),
    "cross_entropy": Pair(
        lambda x: cross_entropy(x, TARGET),
        lambda x: functional.cross_entropy(x, TARGET),
    ),
    "cross_entropy's rows": Pair(
        lambda x: cross_entropy(x, TARGET, reduction="none", label_smoothing=0.1, z_loss=0.01),
        composed_losses,
    ),
    "topk_softmax": Pair(
        lambda x: topk_softmax(x, 3)[0], lambda x: torch.topk(torch.softmax(x, -1), 3).values
    ),
    "topk_softmax of the k": Pair(
        lambda x: topk_softmax(x, 3, normalize="topk")[0],
        lambda x: torch.softmax(torch.topk(x, 3).values, -1),
    ),
    "attention": Pair(
        lambda query: attention(query, KEY, KEY, is_causal=True), composed_attention, QUERY
    ),
}  # fmt: skip


def tangent(f: Function) -> Callable[[Tensor], Any]:
    """By torch.autograd.forward_ad."""

    def of(x: Tensor) -> Any:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(f(forward_ad.make_dual(x, x.cos()))).tangent

    return of


def squares(f: Function) -> Function:
    return lambda x: f(x).square().sum()


TRANSFORMS: dict[str, Callable[[Function], Callable[..., Any]]] = {
    "grad": lambda f: torch.func.grad(squares(f)),
    "jvp": lambda f: lambda x: torch.func.jvp(f, (x,), (x.cos(),)),
    "forward_ad": tangent,
    "jacrev": torch.func.jacrev,
    "jacfwd": torch.func.jacfwd,
    "hessian": lambda f: torch.func.hessian(squares(f)),
    "grad of grad": lambda f: torch.func.grad(squares(torch.func.grad(squares(f)))),
    "vmap": lambda f: lambda x: torch.vmap(f)(torch.stack((x, x + x.sin()))),
    "vmap of grad": lambda f: (
        lambda x: torch.vmap(torch.func.grad(squares(f)))(torch.stack((x, x + x.sin())))
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", PAIRS)
def test_transforms_are_those_of_the_composition(name: str, transform: str):
    pair, of = PAIRS[name], TRANSFORMS[transform]
    assert_close(of(pair.mine)(pair.x), of(pair.theirs)(pair.x))


@pytest.mark.parametrize("transform", ["jvp", "forward_ad", "grad"])
@pytest.mark.parametrize("name", ["softmax", "cross_entropy", "topk_softmax", "attention"])
def test_they_are_so_in_a_compiled_graph(name: str, transform: str):
    torch._dynamo.reset()
    pair, of = PAIRS[name], TRANSFORMS[transform]
    mine = torch.compile(of(pair.mine), fullgraph=True, backend="aot_eager")
    assert_close(mine(pair.x), of(pair.theirs)(pair.x))


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_pass_gradcheck_in_float64(name: str):
    x = PAIRS[name].x.clone().requires_grad_()
    # Of torch's attentions the composed one alone has a second gradient.
    with sdpa_kernel(SDPBackend.MATH):
        assert gradcheck(PAIRS[name].mine, (x,), check_forward_ad=True)
        assert gradgradcheck(PAIRS[name].mine, (x,))


def test_tangents_of_16_bits_are_near():
    x = X.to(torch.bfloat16)
    mine, theirs = (tangent(lambda x: topk_softmax(x, 3)[0])(t) for t in (x, x.double()))
    assert mine.dtype == torch.bfloat16
    assert_close(mine.double(), theirs, atol=1e-2, rtol=1e-2)


def test_where_the_largest_stand_has_no_derivative():
    indices, tangents = TRANSFORMS["jvp"](lambda x: topk_softmax(x, 3)[1])(X)
    assert torch.equal(indices, X.topk(3).indices)
    assert not tangents.any()


def test_batches_of_samples_are_each_as_alone():
    x = torch.randn(3, 4, 50)
    draw = partial(sample, temperature=0.7, top_k=20, top_p=0.9, seed=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for in_dim in (0, 1):
            each = torch.vmap(draw, in_dims=in_dim)(x)
            assert torch.equal(each, torch.stack([draw(one) for one in x.unbind(in_dim)]))
