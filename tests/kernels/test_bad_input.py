"""What no function can do anything with is told in one sentence: what came, and what to do.

Each row of TABLE is a call by what is wrong with it, the exception, and words of its message.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor

from kernels import attention, cross_entropy, log_softmax, sample, softmax, topk_softmax

pytestmark = pytest.mark.filterwarnings("ignore")
Row = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], type[Exception], str]

X, T, Q = torch.randn(3, 5), torch.tensor([0, 1, 2]), torch.randn(1, 2, 4, 8)
LEAF = torch.zeros(3, 5, requires_grad=True)
NESTED = torch.nested.nested_tensor([X[:2], X])
JAGGED = torch.nested.nested_tensor([X[:2], X], layout=torch.jagged)
NO_TENSORS = ([1.0], 1.0, numpy.zeros((3, 5)))
NO_NUMBERS = ("a", None, 1j, [1.0], True, torch.tensor(0.5), torch.ones(3, 1), LEAF)
NO_INTS = ("a", 1.0, math.nan, True, [1], torch.tensor(1), torch.tensor([1, 2]))
NO_FLAGS = ("yes", 1, None, torch.tensor(True), X > 0)
NO_FLOATS = (torch.int64, torch.bool, torch.float8_e4m3fn)
COMPLEX = (torch.complex64, torch.complex128)
NOT_STRIDED = (X.to_sparse(), X.to_sparse_csr())
HUGE = 10**400


def rows_of_softmax(f: Callable[..., Any]) -> Iterator[Row]:
    name = f.__name__
    for x in NO_TENSORS:
        yield f, (x,), {}, TypeError, f"{name} expects a torch.Tensor for x; got .*as_tensor"
    for given in ((), (None,)):
        words = f"{name} expects a torch.Tensor for x; got None: pass a tensor as x$"
        yield f, given, {}, TypeError, words
    yield f, (X,), {"input": X}, TypeError, f"{name} takes one tensor, .*got both"
    for dtype in NO_FLOATS:
        words = f"takes float16.*got {dtype}: pass dtype=torch.float32"
        yield f, (X.to(dtype),), {}, TypeError, words
        yield f, (X,), {"dtype": dtype}, TypeError, words
    for dtype in COMPLEX:
        words = rf"got {dtype}: pass x\.real or x\.abs\(\), or of real .* dtype=torch\.float32$"
        yield f, (X.to(dtype),), {}, TypeError, words
        yield f, (X,), {"dtype": dtype}, TypeError, words
    for x in NOT_STRIDED:
        yield f, (x,), {}, TypeError, r"a strided tensor for x; got torch\.sparse.*x\.to_dense"
        yield f, (X,), {"out": x}, TypeError, "a strided tensor for out"
        yield f, (X,), {"mask": x}, TypeError, "a strided tensor for mask"
    yield f, (NESTED,), {}, TypeError, r"layout torch\.jagged"
    for options in ({"mask": X > 0}, {"out": X.clone()}, {"is_causal": True}):
        yield f, (JAGGED,), options, ValueError, "a nested tensor: pass"
    for dim in (None, 1.0, "1", True, [0], torch.tensor(1), torch.tensor([0, 1])):
        yield f, (X, dim), {}, TypeError, "an int for dim; got .*: pass a Python int$"
    for dim in (2, -3, 2**70):
        words = r"a dim from -2 to 1 .*\(3, 5\); got .*: pass dim=-1 for the last$"
        yield f, (X, dim), {}, IndexError, words
    yield f, (X[0, 0], 1), {}, IndexError, "a dim from -1 to 0"
    for dtype in ("half", float, numpy.float32):
        words = r"a torch\.dtype or None .*: pass one such as torch\.float32$"
        yield f, (X,), {"dtype": dtype}, TypeError, words
    for option in ("invariant", "is_causal"):
        for flag in NO_FLAGS:
            yield f, (X,), {option: flag}, TypeError, f"True or False for {option}; got"
    for option in ("scale", "factor"):
        for number in NO_NUMBERS:
            yield f, (X,), {option: number}, TypeError, f"a number for {option}; got"
        for number in (math.nan, math.inf, -math.inf, HUGE, -HUGE):
            words = f"a finite number for {option}; got .*: pass one .* or leave {option} away$"
            yield f, (X,), {option: number}, ValueError, words
    yield from rows_of_masks_and_outputs(f)


def rows_of_masks_and_outputs(f: Callable[..., Any]) -> Iterator[Row]:
    for mask in ([True] * 5, 1.0, False, numpy.ones(5, bool)):
        yield f, (X,), {"mask": mask}, TypeError, "for mask; got"
    for dtype in (torch.int64, torch.float16, torch.float64, torch.complex64, torch.float8_e4m3fn):
        mask = torch.ones(5).to(dtype)
        words = r"torch\.bool, or of torch\.float32 .*: pass mask\.bool\(\) or mask\.to\(torch"
        yield f, (X,), {"mask": mask}, TypeError, words
    for shape in ((3,), (0,), (2, 3, 5), (3, 1, 1), (3, 4)):
        words = r"broadcast to \(3, 5\); got \(.*: pass one whose sizes, from the last"
        yield f, (X,), {"mask": torch.ones(shape) > 0}, ValueError, words
    words = r"a mask on cpu, as x; got one on meta: pass mask\.to\(x\.device\)"
    yield f, (X,), {"mask": (X > 0).to("meta")}, ValueError, words
    yield f, (X,), {"mask": NESTED}, TypeError, "in mask; got a nested tensor"
    yield f, (X,), {"mask": X > 0, "is_causal": True}, ValueError, "got both"
    words = "along the last dimension .*: move that dimension to the end, or pass a mask$"
    yield f, (X, 0), {"is_causal": True}, ValueError, words
    yield f, (X[0],), {"is_causal": True}, ValueError, "along the last dimension"
    for out in ([1.0], 3, numpy.zeros((3, 5))):
        yield f, (X,), {"out": out}, TypeError, r"a torch\.Tensor for out; got"
    for out in (X[:2].clone(), X.double(), X.half(), X.to("meta"), X.T.contiguous()):
        words = r"out of shape \(3, 5\), torch\.float32, on cpu; .*: pass torch\.empty_like\(x, d"
        yield f, (X,), {"out": out}, ValueError, words
    words = r"a place for each result; got strides \(0, 1\) .*: pass torch\.empty_like\(x\)$"
    yield f, (X,), {"out": torch.zeros(5).expand(3, 5)}, ValueError, words
    for x, options in ((LEAF, {}), (X, {"mask": LEAF})):
        options = {"out": X.clone(), **options}
        yield f, (x,), options, RuntimeError, "no gradient through out="
    yield f, (X,), {"out": LEAF.clone()}, RuntimeError, "no gradient through out="


def rows_of_cross_entropy() -> Iterator[Row]:
    f = cross_entropy
    for x in (*NO_TENSORS, None):
        yield f, (x, T), {}, TypeError, r"a torch\.Tensor for input; got"
        yield f, (X, x), {}, TypeError, r"a torch\.Tensor for target; got"
    for dtype in NO_FLOATS:
        yield f, (X.to(dtype), T), {}, TypeError, rf"got {dtype}: pass input\.float"
    for dtype in COMPLEX:
        words = rf"got {dtype}: pass input\.real or input\.abs\(\)$"
        yield f, (X.to(dtype), T), {}, TypeError, words
    for x in (*NOT_STRIDED, NESTED, JAGGED):
        yield f, (x, T), {}, TypeError, "for input|in input"
    yield f, (X, T.to_sparse()), {}, TypeError, "a strided tensor for target"
    for dtype in (torch.float32, torch.bool, torch.int8, torch.uint8, torch.int16, torch.complex64):
        words = f"int32 or int64 in target; got {dtype}"
        yield f, (X, T.to(dtype)), {}, TypeError, words
    for target in (T[:2], T[None], T[0]):
        yield f, (X, target), {}, ValueError, r"got \(3, 5\) and \(.*\)$"
    # As torch has them, classes before the last dimension.
    yield (
        f,
        (X[None], T.new_zeros(1, 5)),
        {},
        ValueError,
        r"and \(1, 5\): pass input\.movedim\(1, -1\)$",
    )
    for weight in (torch.ones(5), [1.0] * 5):
        yield f, (X, T), {"weight": weight}, ValueError, 'no weight for a class; got .*"none"'
    yield f, (X[:, :0], T), {}, ValueError, "of a class at least"
    yield f, (X[0, 0], T), {}, ValueError, r"got \(\) and \(3,\)"
    words = r"on one device; got cpu and meta: pass target\.to\(input\.device\)$"
    yield f, (X, T.to("meta")), {}, ValueError, words
    for dtype in (torch.bool, torch.uint8, torch.int16):
        yield f, (X, T.to(dtype)), {}, TypeError, rf"got {dtype}: pass target\.long\(\)$"
    for wrong in (5, 9, -3, 2**40, -(2**63)):
        target = torch.tensor([0, wrong, -7])
        for options in ({}, {"check": True}, {"reduction": "none"}, {"label_smoothing": 0.1}):
            words = f"from 0 to 4, or ignore_index=-100; got {wrong} in row 1"
            yield f, (X, target), options, IndexError, words
    yield f, (X, T.new_tensor([0, 0, 7]).int()), {}, IndexError, "got 7 in row 2"
    yield f, (X[None], T.new_tensor([[0, 6, 7]])), {}, IndexError, "got 6 in row 1"
    yield f, (X, T - 100), {"ignore_index": -99}, IndexError, "ignore_index=-99; got -100 in row 0"
    yield f, (X.to("meta"), T.to("meta")), {"check": True}, RuntimeError, "leave check=True away"
    for number in (*NO_INTS, None):
        yield f, (X, T), {"ignore_index": number}, TypeError, "an int for ignore_index; got"
    for number in (2**63, -(2**70)):
        yield f, (X, T), {"ignore_index": number}, ValueError, "an ignore_index of 64 bits; got"
    for reduction in ("max", "", None, 0, ["mean"], torch.tensor(1), torch.tensor([1, 2])):
        yield f, (X, T), {"reduction": reduction}, ValueError, "knows the reductions"
    for option in ("label_smoothing", "z_loss"):
        for number in NO_NUMBERS:
            yield f, (X, T), {option: number}, TypeError, f"a number for {option}; got"
    for number in (-0.1, 1.1, 2, math.nan, math.inf, HUGE):
        yield f, (X, T), {"label_smoothing": number}, ValueError, "from 0 to 1; got"
    for number in (math.nan, math.inf, -math.inf, HUGE):
        yield f, (X, T), {"z_loss": number}, ValueError, "a finite number for z_loss; got"
    for option in ("return_lse", "inplace", "check"):
        for flag in NO_FLAGS:
            yield f, (X, T), {option: flag}, TypeError, f"True or False for {option}; got"
    options = {"inplace": True, "reduction": "none"}
    yield f, (X, T), options, ValueError, "'mean' or 'sum'; got 'none'"
    yield f, (LEAF, T), {"inplace": True}, RuntimeError, "overwrite a leaf"
    yield f, ((LEAF * 1).T, T.new_zeros(5)), {"inplace": True}, ValueError, "even distances"


def rows_of_topk_softmax() -> Iterator[Row]:
    f = topk_softmax
    for x in (*NO_TENSORS, None):
        yield f, (x, 2), {}, TypeError, r"a torch\.Tensor for x; got"
    yield f, (X, 2), {"input": X}, TypeError, "topk_softmax takes one tensor, .*got both"
    yield f, (X[0], 2), {}, ValueError, r"got shape \(\d+,\): pass x.reshape\(1, -1\)"
    yield f, (X,), {}, TypeError, "an int for k; got None"
    for dtype in NO_FLOATS:
        yield f, (X.to(dtype), 2), {}, TypeError, rf"got {dtype}: pass x\.float"
    yield f, (X.to(COMPLEX[0]), 2), {}, TypeError, r"complex64: pass x\.real or x\.abs\(\)$"
    for x in (*NOT_STRIDED, NESTED, JAGGED):
        yield f, (x, 2), {}, TypeError, "for x|in x"
    for x in (X[0, 0], X[0], X[None]):
        yield f, (x, 1), {}, ValueError, r"rows \(M, N\); got shape \("
    for k in (*NO_INTS, None):
        yield f, (X, k), {}, TypeError, "an int for k; got"
    for k in (0, -1, 6, 129, 2**70, HUGE):
        yield f, (X, k), {}, ValueError, "from 1 to the 5 columns; got"
    yield f, (X[:, :0], 1), {}, ValueError, "from 1 to the 0 columns; got 1"
    yield f, (torch.zeros(2, 300), 129), {}, ValueError, r"at most 128; got 129.*torch\.topk"
    for normalize in ("row", None, True, ["all"], torch.tensor([1, 2])):
        yield f, (X, 2), {"normalize": normalize}, ValueError, 'normalize="all" or "topk"; got'


def rows_of_sample() -> Iterator[Row]:
    f = sample
    for x in (*NO_TENSORS, None):
        yield f, (x,), {}, TypeError, r"a torch\.Tensor for logits; got"
    for dtype in (torch.int64, torch.bool, torch.complex64):
        yield f, (X.to(dtype),), {}, TypeError, rf"got {dtype}: pass logits\.float"
    for x in (*NOT_STRIDED, NESTED, JAGGED):
        yield f, (x,), {}, TypeError, "for logits|in logits"
    for x in (X[0, 0], X[0], X[None], X[:, :0]):
        yield f, (x,), {}, ValueError, "rows of at least one logit"
    for number in NO_NUMBERS:
        yield f, (X,), {"temperature": number}, TypeError, "a number for temperature; got"
        if number is not None:
            yield f, (X,), {"top_p": number}, TypeError, "a number for top_p; got"
    for number in (0, 0.0, -1.0, -math.inf, math.nan):
        yield f, (X,), {"temperature": number}, ValueError, r"above 0; got .*argmax\(-1\)"
    for number in (math.inf, 1e-45, 1e300, HUGE):
        yield f, (X,), {"temperature": number}, ValueError, "inverse float32 holds; got"
    for number in NO_INTS:
        yield f, (X,), {"top_k": number}, TypeError, "an int for top_k; got"
        yield f, (X,), {"seed": number}, TypeError, "an int for seed; got"
        yield f, (X,), {"offset": number}, TypeError, "an int for offset; got"
        yield f, (X,), {"seed": 1, "offset": number}, TypeError, "an int for offset; got"
    yield f, (X,), {"offset": None}, TypeError, "an int for offset; got None"
    for k in (0, -1, 6, 2**70):
        yield f, (X,), {"top_k": k}, ValueError, "top_k from 1 to the 5 columns; got"
    for p in (0, 0.0, -1.0, 1.5, math.nan, math.inf, HUGE):
        yield f, (X,), {"top_p": p}, ValueError, "top_p above 0 and at most 1; got"
    for option in ("seed", "offset"):
        for number in (2**64, -(2**63) - 1, HUGE):
            yield f, (X,), {option: number}, ValueError, f"64 bits for {option}; got"
    for generator in (5, "cpu", torch.Generator, object()):
        yield f, (X,), {"generator": generator}, TypeError, r"a torch\.Generator for generator; got"
    options = {"seed": 1, "generator": torch.Generator()}
    yield f, (X,), options, ValueError, "got both: pass only one"


def rows_of_attention() -> Iterator[Row]:
    f = attention
    for x in (*NO_TENSORS, None):
        yield f, (x, Q, Q), {}, TypeError, r"a torch\.Tensor for query; got"
        yield f, (Q, x, Q), {}, TypeError, r"a torch\.Tensor for key; got"
        yield f, (Q, Q, x), {}, TypeError, r"a torch\.Tensor for value; got"
    for x in (NESTED, JAGGED, Q.to_sparse()):
        yield f, (x, Q, Q), {}, TypeError, "for query|in query"
        yield f, (Q, Q, x), {}, TypeError, "for value|in value"
    for dtype in (*NO_FLOATS, *COMPLEX):
        few = Q.to(dtype)
        yield f, (few, few, few), {}, RuntimeError, f"floating-point tensors.* got {dtype}"
        yield f, (Q, few, Q), {}, RuntimeError, "of one dtype on one device; got"
    yield f, (Q, Q, Q.to("meta")), {}, RuntimeError, "of one dtype on one device; got"
    mixed = (Q, Q[0], Q[0]), (Q, Q, Q[None]), (Q[0], X[0], Q[0])
    for given in ((X[0, 0],) * 3, (X[0],) * 3, *mixed):
        yield f, given, {}, RuntimeError, r"query \(B, H, S_q, D\) .* got \("
    yield f, (Q[None].double(), Q[None], Q[None]), {}, RuntimeError, "of one dtype on one device"
    yield f, (Q[None].int(),) * 3, {}, RuntimeError, "floating-point tensors"
    for given in ((Q[:0], Q, Q), (Q, Q[:, :1], Q), (Q, Q, Q[:, :, 1:]), (Q, Q[:0], Q[:0])):
        yield f, given, {}, RuntimeError, r"one B of all three and one \(H_kv, S_k\)"
    yield f, (Q, Q[..., :4], Q), {}, RuntimeError, "one D of query and key; got"
    for heads in (Q.repeat(1, 2, 1, 1)[:, :3], Q[:, :0]):
        yield f, (Q, heads, heads), {}, RuntimeError, "a multiple of them; got"
    for flag in (*NO_FLAGS, torch.ones(4, 4) > 0):
        yield f, (Q, Q, Q), {"is_causal": flag}, TypeError, "True or False for is_causal; got"
    for number in NO_NUMBERS:
        if number is not None:
            yield f, (Q, Q, Q), {"scale": number}, TypeError, "a number for scale; got"
    for number in (math.nan, math.inf, -math.inf, HUGE):
        yield f, (Q, Q, Q), {"scale": number}, ValueError, "a finite number for scale; got"
    yield from rows_of_what_torch_takes(f)


def rows_of_what_torch_takes(f: Callable[..., Any]) -> Iterator[Row]:
    for x in (*NO_TENSORS, NESTED):
        yield f, (Q, Q, Q), {"attn_mask": x}, TypeError, "attn_mask; got|in attn_mask"
    seen = torch.ones(Q.shape[2], Q.shape[2]) > 0
    words = r"an attn_mask on cpu, as query; got one on meta: pass attn_mask\.to\(query\.device\)$"
    yield f, (Q, Q, Q), {"attn_mask": seen.to("meta")}, ValueError, words
    both = {"attn_mask": seen, "is_causal": True}
    yield f, (Q, Q, Q), both, ValueError, "an attn_mask or is_causal=True; got both"
    for shape in ((3,), (0,), (2, 1), (5, 1, 1, 1), (1, 1, 1, 1, 1)):
        words = (
            r"an attn_mask that is broadcast to \(1, 2, .*\); got \(.*: pass one of at most 4 "
            "dimensions, whose sizes"
        )
        yield f, (Q, Q, Q), {"attn_mask": torch.zeros(shape)}, ValueError, words
    for dtype in (torch.int64, torch.uint8, torch.float64, torch.complex64):
        advice = r"to\(torch.float32\)$" if dtype.is_floating_point else r"bool\(\)$"
        words = rf"or of {Q.dtype} to be added; got {dtype}: pass attn_mask\.{advice}"
        yield f, (Q, Q, Q), {"attn_mask": seen.to(dtype)}, TypeError, words
    for q in (Q[0], Q[0, 0], Q[None]):  # whatever number of dimensions
        yield f, (q, q, q), both, ValueError, "got both: put one in the mask"
        yield f, (q, q, q), {"attn_mask": seen.to("meta")}, ValueError, "got one on meta"
    for share in (math.nan, -0.1, 1.1, HUGE):
        yield f, (Q, Q, Q), {"dropout_p": share}, ValueError, "a dropout_p from 0 to 1; got"


TABLE = [
    *rows_of_softmax(softmax), *rows_of_softmax(log_softmax), *rows_of_cross_entropy(),
    *rows_of_topk_softmax(), *rows_of_sample(), *rows_of_attention(),
]  # fmt: skip


def described(given: Any) -> str:
    if not isinstance(given, Tensor):
        plain = str(given)[:24] if isinstance(given, str | float | int | torch.dtype) else ""
        return f"{type(given).__name__} {plain}".strip()
    if given.is_nested:
        return "nested"
    return f"{given.dtype}{tuple(given.shape)}{given.layout}".replace("torch.", "")


def name_of(row: Row) -> str:
    f, given, options, *_ = row
    told = [*map(described, given), *(f"{k}={described(v)}" for k, v in options.items())]
    return f"{f.__name__}({', '.join(told)})"


@pytest.mark.parametrize("row", TABLE, ids=name_of)
def test_bad_input_gets_a_sentence(row: Row):
    call, given, options, error, words = row
    with pytest.raises(error, match=words) as raised:
        call(*given, **options)
    assert raised.type is error  # and no kin of it, as torch's AcceleratorError is of RuntimeError
    message = str(raised.value)
    assert message.startswith(call.__name__), message
    assert "\n" not in message
    assert len(message) < 300


def test_what_is_odd_but_right_is_taken():
    assert softmax(X, scale=numpy.float32(0.5), factor=2).shape == X.shape  # pyright: ignore[reportArgumentType]
    assert softmax(JAGGED).is_nested
    assert log_softmax(JAGGED, scale=0.5).is_nested
    for x in (X.to("meta"), X[:0], X[:, :0], X[0, 0]):
        assert softmax(x).shape == log_softmax(x).shape == x.shape
    for scale in (0, 0.0, -1.0):
        assert torch.equal(softmax(X, scale=scale), torch.softmax(X * scale, -1))
    few, wide = topk_softmax(X.to("meta"), 2), sample(X.to("meta"), seed=1)
    assert (few[0].shape, wide.shape) == ((3, 2), (3,))
    assert torch.equal(topk_softmax(X, numpy.int64(2))[1], topk_softmax(X, 2)[1])  # pyright: ignore[reportArgumentType]
    for seed in (numpy.int64(3), numpy.uint64(2**63)):
        assert torch.equal(sample(X, seed=seed), sample(X, seed=int(seed)))  # pyright: ignore[reportArgumentType]
    assert cross_entropy(X.to("meta"), T.to("meta")).shape == ()  # pyright: ignore[reportAttributeAccessIssue]
    assert cross_entropy(X, torch.full((3,), 7), ignore_index=7).isnan()  # pyright: ignore[reportAttributeAccessIssue]
    assert attention(Q, Q, Q, scale=numpy.float32(0.5)).shape == Q.shape  # pyright: ignore[reportArgumentType]
    assert attention(Q[:, :, :0], Q, Q).shape == (1, 2, 0, 8)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_targets_that_nobody_looked_at_make_their_rows_nan(reduction: str):
    target = torch.tensor([0, 9, -100])

    def loss(x: Tensor) -> Tensor:
        return cross_entropy(x, target, reduction=reduction).sum()  # pyright: ignore[reportAttributeAccessIssue]

    eager = torch.func.grad_and_value(loss)
    for of in (eager, torch.compile(eager, fullgraph=True, backend="aot_eager")):
        grad, value = of(X)
        assert value.isnan()
        assert bool(grad[1].isnan().all())
        assert bool(grad[[0, 2]].isfinite().all())
