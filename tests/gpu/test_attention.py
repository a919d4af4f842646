"""kernels.attention on the GPU: any memory, any lengths, and all that PyTorch does to a call."""

import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.library import opcheck
from torch.nn.functional import scaled_dot_product_attention

import kernels
from kernels import attention_api as module
from kernels import attention_eager
from kernels.attention_api import attention, operator, refusal
from kernels.triton import triton_attention
from tests.kernels.attention_cases import (
    Case,
    Shape,
    Tensors,
    assert_attention,
    exact,
    far_from_0,
    layouts,
    place,
    random,
)

pytestmark = [pytest.mark.gpu]

KINDS = (torch.float16, torch.bfloat16)
SHAPES = [
    Shape(1, 1, 1, 1, 1, 64),
    Shape(2, 2, 1, 17, 100, 128),
    Shape(1, 2, 2, 64, 64, 64),
    Shape(1, 1, 1, 100, 17, 64),
    Shape(2, 3, 1, 200, 200, 128),
    Shape(2, 4, 2, 129, 65, 64),
    Shape(3, 8, 2, 1, 4097, 128),
    Shape(1, 2, 1, 1000, 333, 128),
    Shape(2, 12, 4, 1024, 1024, 64),
    Shape(1, 4, 4, 2048, 2049, 128),
    Shape(1, 2, 1, 130, 4200, 128),
    Shape(2, 2, 1, 70, 1025, 64),
]


@pytest.fixture(scope="module", autouse=True)
def ampere(gpu: None) -> None:
    """Skip before Ampere, where torch computes."""
    if torch.cuda.get_device_capability()[0] < 8:
        pytest.skip("needs a GPU from Ampere on")


def given(shape: Shape, dtype: torch.dtype = torch.bfloat16) -> Tensors:
    return random(shape, dtype, "cuda")


def kernel(case: Case, is_causal: bool, scale: float | None = None) -> Case:
    """Attention by the kernel, whatever the strides, into the case's output."""
    scale = 1 / math.sqrt(case.query.shape[3]) if scale is None else scale
    case.out.fill_(math.nan)
    shared = torch.cuda.get_device_properties(0).shared_memory_per_block_optin
    triton_attention.attention(*case[:4], is_causal, scale, shared)
    return case


def of(query: Tensor, key: Tensor, value: Tensor) -> Case:
    return Case(query, key, value, *place(query, (0, 1, 2), 0, 0, 7.0))


def close(y: Tensor, tensors: Tensors, is_causal: bool = False) -> None:
    expected, terms = exact(*tensors, is_causal)
    eps = torch.finfo(y.dtype).eps
    assert ((y.double() - expected).abs() <= 2 * eps * terms + 1e-5).all()


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention_is_right_in_any_memory_and_nothing_else_is_written(
    shape: Shape, dtype: torch.dtype, is_causal: bool
):
    for case in layouts(shape, dtype, "cuda"):
        assert_attention(kernel(case, is_causal), is_causal)
        y = attention(case.query, case.key, case.value, is_causal=is_causal)
        close(y, (case.query, case.key, case.value), is_causal)
        assert y.stride() == torch.empty_like(case.query).stride()


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("most", [8.0, 512.0, 16_384.0])
def test_large_scores_lose_nothing(dtype: torch.dtype, most: float):
    """They are exact in float32 here, so that only what follows them can be wrong."""
    _, _, value = given(Shape(1, 1, 1, 300, 500, 128), dtype)
    query, key = (
        (torch.randint(-1, 2, (1, 1, rows, 128), device="cuda") * most).to(dtype)
        for rows in (300, 500)
    )
    key[0, 0, 400:405] = key[0, 0, 5]
    for scale in (1.0, 2.0**-20):
        for is_causal in (False, True):
            case = kernel(of(query, key, value), is_causal, scale)
            assert_attention(case, is_causal, scale)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("length", "dim"), [(300, 64), (1100, 64), (1100, 128), (4200, 128)])
def test_infinite_scores_and_nan_are_as_in_torch(length: int, dim: int, is_causal: bool):
    query, key, value = given(Shape(1, 1, 1, length, length, dim), torch.float16)
    query = query.abs() + 0.5
    hidden, first, no_number, infinite = (key.clone() for _ in range(4))
    hidden[0, 0, 1:70:2, 3] = -math.inf
    first[0, 0, :64, 3] = -math.inf
    no_number[0, 0, 100, 0] = math.nan
    infinite[0, 0, 100, 0] = math.inf
    for changed in (hidden, first, no_number, infinite, torch.full_like(key, -math.inf)):
        y = attention(query, changed, value, is_causal=is_causal)
        expected, _ = exact(query, changed, value, is_causal)
        torch.testing.assert_close(y.double(), expected, rtol=4e-3, atol=4e-3, equal_nan=True)


def test_elements_beyond_32_bits_of_numbers_are_reached():
    """Rows, heads and batches far apart: the last is past 2^31."""
    if torch.cuda.get_device_properties(0).total_memory < 24 * 2**30:
        pytest.skip("needs 24 GB of GPU memory")
    rows, far = 300, 2**23
    memory = torch.zeros(rows * far, dtype=torch.float16, device="cuda")
    apart = memory.view(1, 1, rows, far)[..., :64]
    apart.copy_(torch.randn(apart.shape, device="cuda"))
    for x in (apart, apart.transpose(1, 2), apart.transpose(0, 2)):
        assert_attention(kernel(of(x, x, x), True), True)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize(
    "shape",
    [
        Shape(1, 2, 1, 70, 150, 64), Shape(1, 2, 1, 70, 1100, 64), Shape(1, 2, 1, 70, 1100, 128),
        Shape(1, 2, 1, 130, 4200, 128),
    ],
    ids=str,
)  # fmt: skip
def test_scores_far_from_0_are_subtracted_first(shape: Shape, sign: float):
    """As tests/kernels/test_triton_attention.py has it, in every tile, and with fused roundings."""
    for most in (128, shape.keys):
        tensors = far_from_0(shape, sign, most, "cuda")
        for scale in (0.9, 1.0, 1.7):
            assert_attention(kernel(of(*tensors), False, scale), False, scale)


def test_keys_that_batches_or_heads_share_are_described_once():
    query, key, value = given(Shape(3, 4, 2, 130, 4200, 128), torch.float16)
    for batches, heads in ((1, 2), (3, 1), (1, 1)):
        keys, values = (x[:batches, :heads].expand(3, 2, 4200, 128) for x in (key, value))
        close(attention(query, keys, values), (query, keys, values))
    one = value[:, :2, :1].expand(3, 2, 4200, 128)  # of all keys, by pointers
    close(attention(query, key[:, :2], one), (query, key[:, :2], one))


def test_more_programs_than_a_grid_has_in_its_second_dimension():
    query, key, value = given(Shape(70_000, 1, 1, 3, 5, 64))
    close(attention(query, key, value), (query, key, value))


@pytest.mark.usefixtures("collected")
def test_it_is_captured_even_at_its_first_call():
    torch.cuda.synchronize()
    tensors = given(Shape(2, 4, 2, 333, 257, 128), torch.float16)
    # A process in which no such kernel was loaded yet: forget those that were.
    compiled: Any = triton_attention._attention
    compiled.device_caches.clear()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = attention(*tensors, is_causal=True)
    for _ in range(2):
        for t in tensors:
            t.normal_()
        y.fill_(math.nan)
        graph.replay()
        close(y, tensors, True)


def test_streams_do_not_meet():
    streams = [torch.cuda.Stream() for _ in range(4)]
    cases = [given(Shape(1, 8, 8, 512, 512 + i, 64)) for i in range(4)]
    torch.cuda.synchronize()
    results = []
    for _ in range(5):
        for stream, tensors in zip(streams, cases, strict=True):
            with torch.cuda.stream(stream):
                results.append((attention(*tensors), tensors))
    torch.cuda.synchronize()
    for y, tensors in results:
        close(y, tensors)


def test_the_tensors_gpu_is_taken_though_another_is_current():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    tensors = random(SHAPES[4], torch.bfloat16, "cuda:1")
    y = attention(*tensors)
    assert y.device == tensors[0].device
    close(y, tensors)


def test_the_operator_is_what_torch_expects_of_one():
    for shape in (SHAPES[1], SHAPES[4]):
        opcheck(operator, (*given(shape), True, None))
        query, key, value = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in given(shape))
        opcheck(operator, (query, key, value, False, 0.3))


def test_it_compiles_whole():
    compiled = torch.compile(attention, fullgraph=True, dynamic=True)
    for shape in (SHAPES[4], SHAPES[5], SHAPES[7]):
        tensors = given(shape)
        close(compiled(*tensors, is_causal=True), tensors, True)


def test_what_the_kernel_does_not_take_goes_to_torch():
    module._warn_once.cache_clear()
    for dtype, dim in ((torch.float32, 64), (torch.bfloat16, 80)):
        tensors = given(Shape(1, 2, 2, 33, 70, dim), dtype)
        assert refusal(*tensors) is not None
        with pytest.warns(UserWarning, match="goes through torch"):
            y = attention(*tensors)
        torch.testing.assert_close(y, scaled_dot_product_attention(*tensors))
    query, key, value = (t.requires_grad_() for t in given(SHAPES[2]))
    with pytest.warns(UserWarning, match="a gradient"):
        attention(query, key, value).sum().backward()
    assert query.grad is not None
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        assert refusal(query, key, value) is None
        close(attention(query, key, value), (query, key, value))


def test_autocast_gives_the_kernel_what_it_takes():
    tensors = given(SHAPES[4], torch.float32)
    with warnings.catch_warnings(), torch.autocast("cuda", torch.float16):
        warnings.simplefilter("error")
        y = attention(*tensors)
    assert y.dtype == torch.float16
    query, key, value = (t.half() for t in tensors)
    close(y, (query, key, value))


def test_empty_tensors_are_as_torchs():
    query, key, value = given(SHAPES[4])
    assert not attention(query, key[:, :, :0], value[:, :, :0]).any()
    assert attention(query[:, :, :0], key, value).shape == query[:, :, :0].shape
    assert attention(query[:0], key[:0], value[:0]).shape == query[:0].shape


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_call_past_the_dispatcher_has_the_operators_bits(
    shape: Shape, is_causal: bool, monkeypatch: pytest.MonkeyPatch
):
    tensors = given(shape)
    expected = operator(*tensors, is_causal, None)

    def long_way(*_: Any, **__: Any) -> Tensor:
        raise AssertionError("not past the dispatcher")

    monkeypatch.setattr(module, "attention", long_way)
    streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    for stream, cast in ((s, c) for c in (False, True) for s in (*streams, *streams)):
        with torch.cuda.stream(stream), torch.autocast("cuda", expected.dtype, enabled=cast):
            y = kernels.attention(*tensors, is_causal=is_causal)
        torch.cuda.synchronize()
        assert torch.equal(y, expected)
        assert y.stride() == expected.stride()


def test_a_text_that_grows_has_the_operators_bits():
    tensors = given(Shape(2, 4, 2, 70, 70, 64))
    for length in range(1, 71):
        part = [t[:, :, :length] for t in tensors]
        for q, k, v in (part, [t.contiguous() for t in part]):  # strides grow as well
            y = kernels.attention(q, k, v, is_causal=True)
            assert torch.equal(y, operator(q, k, v, True, None)), length


def test_a_call_past_the_dispatcher_is_captured():
    """Also the first one, which loads the kernel."""
    tensors = given(Shape(2, 3, 1, 77, 190, 64))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ys = [kernels.attention(*tensors, scale=0.21) for _ in range(2)]
    for y in ys:
        y.fill_(math.nan)
    graph.replay()
    expected = operator(*tensors, False, 0.21)
    assert all(torch.equal(y, expected) for y in ys)


def test_what_torch_computes_is_checked_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attention_eager, "_BY_TORCH", {})
    single, half = given(SHAPES[5], torch.float32), given(SHAPES[5])
    grad = torch.randn_like(half[0])

    def gradients(function: Any, **given: Any) -> tuple[Tensor, ...]:
        leaves = [t.detach().clone().requires_grad_() for t in half]
        y = function(*leaves, is_causal=True, **given)
        return (y, *torch.autograd.grad(y, leaves, grad))

    expected = scaled_dot_product_attention(*single, enable_gqa=True)
    of_torch = gradients(scaled_dot_product_attention, enable_gqa=True)
    for checked in (True, False):
        if not checked:
            monkeypatch.setattr(module, "attention", None)
        torch.testing.assert_close(kernels.attention(*single), expected)
        for ours, theirs in zip(gradients(kernels.attention), of_torch, strict=True):
            torch.testing.assert_close(ours, theirs)
    with torch.no_grad():
        close(kernels.attention(*half), half)


@pytest.mark.parametrize("dtype", [*KINDS, torch.float32])
@pytest.mark.parametrize("keys", [64, 65, 72])
def test_a_mask_of_any_layout_is_seen(keys: int, dtype: torch.dtype):
    query, key, value = tensors = given(Shape(2, 4, 2, 129, keys, 64), dtype)
    scores = (2, 4, 129, keys)
    for shape in (
        (), (1,), (keys,), (129, 1), (129, keys), (1, 1, 1, keys), (2, 1, 129, 1), (2, 4, 1, 1)
    ):  # fmt: skip
        added = torch.randn(shape, device="cuda").to(dtype)
        # A row that sees no key differs between torch's own kernels.
        seen = added > (-1 if keys in shape else -99)
        for mask in (added, seen):
            full = mask.expand(scores)
            apart = full.repeat_interleave(2, -1)[..., ::2]
            for other in (mask, full, full.mT.contiguous().mT, apart):
                y = kernels.attention(query, key, value, other)
                masked(y, tensors, full)


def masked(y: Tensor, tensors: Tensors, mask: Tensor) -> None:
    """Compare with softmax(q k^T / sqrt(d) + mask) v in float64."""
    query, key, value = (t.double() for t in tensors)
    key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
    scores = query @ key.mT / math.sqrt(query.shape[3])
    boolean = mask.dtype == torch.bool
    scores = scores.masked_fill(~mask, -math.inf) if boolean else scores + mask.double()
    expected = scores.softmax(-1) @ value
    torch.testing.assert_close(y.double(), expected, rtol=2e-2, atol=2e-2)


def test_a_mask_belongs_on_the_querys_gpu():
    tensors = given(SHAPES[5])
    with pytest.raises(ValueError, match=r"an attn_mask on cuda:0, as query; got one on cpu"):
        kernels.attention(*tensors, torch.ones(65) > 0)
