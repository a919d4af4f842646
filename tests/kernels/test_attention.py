"""kernels.attention means what torch's scaled_dot_product_attention means, however it is called.

Without a GPU Triton's interpreter runs the kernel.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.library import opcheck
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

import kernels
from kernels import attention_api as module
from kernels.attention_api import attention, operator, refusal
from kernels.triton import triton_attention
from tests.kernels.attention_cases import Shape, Tensors, exact, random

SHAPE = Shape(2, 4, 2, 5, 9, 64)
REASON = "attention goes through torch's scaled_dot_product_attention"

interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="tests/gpu has the same")
quiet = pytest.mark.filterwarnings("ignore:attention goes through")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Operators on CPU tensors take the way of CUDA tensors; what the kernel was given."""
    seen: list[str] = []

    def forward(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> Tensor:
        vectors = [triton_attention.vectors(t) for t in (key, value)]
        assert all(vectors)
        assert {t.stride(-1) for t in (query, key, value)} == {1}
        seen.append("kernel")
        return compute(query, key, value, *others)

    compute = triton_attention.attention
    monkeypatch.setattr(triton_attention, "attention", forward)
    monkeypatch.setattr(module, "served", lambda device: True)
    monkeypatch.setattr(module, "relaxed", nullcontext)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    with torch.library._scoped_library("roofline", "IMPL") as library, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is overridden on purpose
        library.impl("attention", module._cuda, "CPU", allow_override=True)
        yield seen


def by_torch(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    return scaled_dot_product_attention(query, key, value, is_causal=is_causal, enable_gqa=True)


def transposed() -> Tensors:
    """Heads as projections leave them: (B, S, H, D), seen as (B, H, S, D)."""
    query, key, value = random(SHAPE, torch.bfloat16)
    return _side_by_side(query), _side_by_side(key), _side_by_side(value)


def _side_by_side(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


@quiet
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_on_the_cpu_torch_computes_every_shape(dtype: torch.dtype, is_causal: bool):
    for shape in (SHAPE, Shape(1, 3, 3, 4, 4, 40), Shape(1, 1, 1, 7, 2, 128)):
        given = random(shape, dtype)
        y = attention(*given, is_causal=is_causal)
        assert_close(y, by_torch(*given, is_causal))
        assert (y.dtype, y.shape) == (dtype, given[0].shape)
    query, key, value = random(SHAPE, dtype)
    narrow = attention(query, key, value[..., :16])
    assert_close(narrow, by_torch(query, key, value[..., :16]))


@interpreted
@pytest.mark.parametrize("is_causal", [False, True])
def test_the_operator_lies_as_the_query_does_by_torch_and_by_the_kernel(
    served: list[str], is_causal: bool
):
    for given in (random(SHAPE, torch.bfloat16), transposed()):
        expected, _ = exact(*given, is_causal)
        for y in (operator(*given, is_causal, None), module._torch(*given, is_causal, None)):
            assert y.stride() == given[0].stride()
            assert_close(y.double(), expected, rtol=3e-2, atol=3e-2)
    assert served == ["kernel"] * 2


@interpreted
def test_what_the_kernel_would_load_by_elements_is_copied(served: list[str]):
    given = random(SHAPE, torch.float16)
    expected = exact(*given, False)[0]
    for place in (_ends_odd, _starts_odd, _columns_first):
        query, key, value = map(place, given)
        y = operator(query, key, value, False, None)
        assert_close(y.double(), expected, rtol=4e-3, atol=4e-3)
    assert served == ["kernel"] * 3


def _ends_odd(x: Tensor) -> Tensor:
    return torch.cat([x, x[..., :3]], -1)[..., : x.shape[-1]]


def _starts_odd(x: Tensor) -> Tensor:
    return torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape)


def _columns_first(x: Tensor) -> Tensor:
    return x.mT.contiguous().mT


@interpreted
def test_what_the_kernel_does_not_take_goes_to_torch(served: list[str]):
    query, key, value = random(SHAPE, torch.float16)
    for scale in (0.0, -0.5, 1e-40):
        y = operator(query, key, value, True, scale)
        expected = scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scale, enable_gqa=True
        )
        assert_close(y, expected, equal_nan=True)  # of which some ways of torch's make NaN
    assert_close(operator(*random(SHAPE, torch.float32), False, None),
                 by_torch(*random(SHAPE, torch.float32)))  # fmt: skip
    # Without queries there is nothing to do, without keys nothing to read.
    assert operator(query[:, :, :0], key, value, False, None).shape == (2, 4, 0, 64)
    assert not operator(query, key[:, :, :0], value[:, :, :0], False, None).any()
    assert operator(query[:0], key[:0], value[:0], True, None).shape == (0, 4, 5, 64)
    assert not served


@interpreted
def test_tensors_without_a_batch_are_one(served: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "refusal", lambda *_, **__: None)
    query, key, value = (t[0] for t in random(SHAPE, torch.float16))
    y = attention(query, key, value, is_causal=True)
    assert served == ["kernel"]
    assert y.shape == query.shape
    assert_close(y, by_torch(query, key, value, is_causal=True), atol=2e-3, rtol=2e-3)


@quiet
@pytest.mark.parametrize("lead", [(), (3,), (2, 3, 4)])
def test_other_numbers_of_dimensions_are_torchs(lead: tuple[int, ...]):
    query, key = torch.randn(*lead, 5, 16), torch.randn(*lead, 7, 16)
    seen = torch.rand(5, 7) < 0.8
    for mask in (None, seen.index_fill(1, torch.tensor(0), True)):
        expected = scaled_dot_product_attention(query, key, key, mask)
        assert_close(attention(query, key, key, mask), expected)
    kept = [t.double().requires_grad_() for t in (query, key)]
    grads = torch.autograd.grad(attention(kept[0], kept[1], kept[1]).square().sum(), kept)
    others = scaled_dot_product_attention(kept[0], kept[1], kept[1]).square().sum()
    assert_close(grads, torch.autograd.grad(others, kept))


@quiet
@pytest.mark.parametrize(
    ("query", "key", "mask", "shared"),
    [
        ((4, 5, 16), (4, 7, 16), (1, 5, 7), False),
        ((4, 5, 16), (2, 7, 16), (5, 7), True),
        ((4, 5, 16), (1, 7, 16), None, False),
        ((4, 5, 16), (2, 4, 7, 16), None, False),
        ((4, 5, 16), (7, 16), None, False),
        ((2, 3, 4, 5, 16), (2, 3, 2, 7, 16), (5, 7), True),
        ((2, 3, 4, 5, 16), (2, 3, 1, 7, 16), None, False),
    ],
    ids=str,
)
def test_torchs_function_gets_what_the_caller_gave(
    query: tuple[int, ...], key: tuple[int, ...], mask: tuple[int, ...] | None, shared: bool
):
    many = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(shape, generator=many) for shape in (query, key, key))
    seen = None if mask is None else torch.randn(mask, generator=many)
    expected = scaled_dot_product_attention(q, k, v, seen, enable_gqa=shared)
    for enable_gqa in {True, shared} if len(query) == len(key) else {shared}:
        assert_close(attention(q, k, v, seen, enable_gqa=enable_gqa), expected)


@quiet
def test_without_a_batch_there_are_second_gradients():
    given = [t[0].requires_grad_() for t in random(Shape(1, 4, 2, 3, 5, 8), torch.float64)]

    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return attention(query, key, value, is_causal=True)

    assert torch.autograd.gradgradcheck(function, given)


def test_a_number_of_dimensions_is_told():
    told = "the kernel takes tensors of four dimensions, or all of three, not of "
    x = torch.randn(2, 3, 4, 5, 64, dtype=torch.float16)
    assert refusal(x, x, x) == f"{told}5"
    assert refusal(x[0], x[0, 0], x[0]) == f"{told}3 and 4"
    with pytest.raises(RuntimeError, match="takes others"):
        operator(x[0, 0], x[0, 0], x[0, 0], False, None)
    # Without a B it is looked at as with one.
    narrow = x[0, 0, ..., :32]
    assert "not 32" in str(module._unserved(*module._batched(narrow, narrow, narrow), None))


def test_the_reason_is_told_once(recwarn: pytest.WarningsRecorder):
    module._warn_once.cache_clear()
    given = random(SHAPE, torch.float16)
    for _ in range(2):
        kernels.attention(*given)
    told = [w for w in recwarn if str(w.message).startswith(REASON)]
    assert [str(w.message) for w in told] == [f"{REASON}: the tensors are not on a CUDA GPU"]
    assert told[0].filename == __file__


def test_a_refusal_says_why():
    def given(dtype: torch.dtype = torch.float16, dim: int = 64) -> Tensors:
        x = torch.empty(1, 2, 3, dim, dtype=dtype)
        return x, x.clone(), x.clone()

    query, key, value = given()
    assert refusal(query, key, value) == "the tensors are not on a CUDA GPU"
    wanted = given()
    wanted[2].requires_grad_()
    assert "a gradient" in str(refusal(*wanted))
    with torch.no_grad():
        assert refusal(*wanted) == refusal(*given())
    for case, scale, reason in (
        (given(), None, None),
        (given(torch.bfloat16, 128), 2.0, None),
        (given(torch.float32), None, "float16 and bfloat16, not torch.float32"),
        (given(dim=96), None, "64 or 128 elements, not 96"),
        ((query, key, value[..., :32]), None, "32 (value)"),
        (given(), 0.0, "a scale above 0 and within float32, not 0.0"),
        (given(), float("nan"), "not nan"),
        ((query[:, :, :1].expand(1, 2, 2**30 + 1, 64), key, value), None, "1073741824 queries"),
        ((query[:, :1, :1].expand(2**16, 2**15, 1, 64), key, value), None, "2147483647 programs"),
    ):
        told = module._unserved(*case, scale)
        assert told is None if reason is None else reason in str(told), told


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (lambda q, k, v: (1, k, v), TypeError, "a torch.Tensor for query; got int"),
        (lambda q, k, v: (q, k, None), TypeError, "for value; got None"),
        (lambda q, k, v: (q, k.double(), v), RuntimeError, "one dtype on one device"),
        (lambda q, k, v: (q, k, v.to("meta")), RuntimeError, "one dtype on one device"),
        (lambda q, k, v: (q.int(), k.int(), v.int()), RuntimeError, "floating-point tensors"),
        (lambda q, k, v: (q, k[0], v[0]), RuntimeError, r"\(B, H_kv, S_k, D\), or all without B"),
        (lambda q, k, v: (q[:1], k, v), RuntimeError, "one B of all three"),
        (lambda q, k, v: (q, k, v[:, :1]), RuntimeError, r"one \(H_kv, S_k\)"),
        (lambda q, k, v: (q, k[:, :, 1:], v), RuntimeError, r"one \(H_kv, S_k\)"),
        (lambda q, k, v: (q[..., :32], k, v), RuntimeError, "one D of query and key"),
        (lambda q, k, v: (q[:, :3], k, v), RuntimeError, "a multiple of them"),
        (lambda q, k, v: (q, k[:, :0], v[:, :0]), RuntimeError, "a multiple of them"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    change: Callable[..., Tensors], error: type[Exception], match: str
):
    with pytest.raises(error, match=match):
        attention(*change(*random(SHAPE, torch.float32)))


@quiet
def test_arguments_are_those_of_torchs_function_in_its_order():
    query, key, value = random(SHAPE, torch.float32)
    seen = torch.rand(query.shape[2], key.shape[2]) < 0.8
    seen[:, 0] = True
    names: dict[str, Any] = {"scale": 0.3, "enable_gqa": True}
    both: tuple[Any, Any] = (attention, scaled_dot_product_attention)
    for given in (
        (None, 0.0, False), (seen, 0.0, False), (seen.float(), 0.0), (None, 0.0, True), (None, 1.0),
    ):  # fmt: skip
        assert_close(*(function(query, key, value, *given, **names) for function in both))


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"attn_mask": [1]}, TypeError, "torch.Tensor for attn_mask; got list"),
        ({"dropout_p": 1.5}, ValueError, "dropout_p from 0 to 1; got 1.5"),
        ({"dropout_p": "half"}, TypeError, "a number for dropout_p; got 'half'"),
        ({"enable_gqa": 1}, TypeError, "True or False for enable_gqa; got 1"),
    ],
)
def test_what_torch_alone_takes_is_checked_too(
    given: dict[str, Any], error: type[Exception], match: str
):
    with pytest.raises(error, match=match):
        attention(*random(SHAPE, torch.float32), **given)


def test_no_mask_and_no_word_is_taken():
    query, key, value = random(SHAPE, torch.float32)
    with pytest.raises(TypeError, match="True or False for is_causal"):
        attention(query, key, value, is_causal=torch.ones(5, 9))  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="a number for scale; got 'large'"):
        attention(query, key, value, scale="large")  # pyright: ignore[reportArgumentType]


@quiet
def test_gradients_and_transforms_are_torchs():
    given = [t.requires_grad_() for t in random(SHAPE, torch.float64)]
    attention(given[0], given[1], given[2], is_causal=True).sum().backward()
    gradients = [t.grad for t in given]
    for t in given:
        t.grad = None
    by_torch(given[0], given[1], given[2], True).sum().backward()
    assert_close(gradients, [t.grad for t in given])
    plain = [t.detach() for t in given]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch has no batched attention of its own here
        many = torch.vmap(lambda q, k, v: attention(q, k, v))(
            *(torch.stack([t] * 3) for t in plain)
        )
    assert_close(many[2], by_torch(plain[0], plain[1], plain[2]))


def test_the_operator_itself_says_that_it_has_no_gradient():
    given = [t.requires_grad_() for t in random(SHAPE, torch.float32)]
    y = operator(*given, False, None)
    with pytest.raises(RuntimeError, match="has no gradient: call kernels"):
        y.sum().backward()


@quiet
def test_autocast_casts_as_torch_does():
    given = random(SHAPE, torch.float32)
    mixed = (given[0].bfloat16(), given[1], given[2].half())
    with torch.autocast("cpu", torch.bfloat16):
        for tensors in (given, mixed):
            y = attention(*tensors)
            assert y.dtype == by_torch(*tensors).dtype == torch.bfloat16
            assert_close(y, by_torch(*tensors))


@interpreted
def test_the_operator_is_what_torch_expects_of_one(served: list[str]):
    opcheck(operator, (*transposed(), True, 0.2))
    assert "kernel" in served


def test_the_operator_on_the_cpu_is_what_torch_expects_of_one():
    for given in (random(SHAPE, torch.float32), transposed()):
        query, key, value = given
        opcheck(operator, (query, key, value, True, None))
        opcheck(operator, (query, key, value[..., :16], False, None))


@quiet
def test_it_compiles_whole():
    given = random(SHAPE, torch.float32)
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager", dynamic=True)
    for tensors in (given, random(SHAPE._replace(queries=11, keys=7), torch.float32)):
        assert_close(compiled(*tensors, is_causal=True), by_torch(*tensors, is_causal=True))
    direct = torch.compile(operator, fullgraph=True, backend="aot_eager", dynamic=True)
    for tensors in (given, random(SHAPE._replace(queries=11, keys=7), torch.float32)):
        assert_close(direct(*tensors, True, None), by_torch(*tensors, is_causal=True))
