"""Factors, masks and logarithms of kernels.softmax mean what the same composed of torch's does.

Without a GPU torch stands in for the kernels, which are told of an operator as they would be.
"""

import math
import struct
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.library import opcheck
from torch.testing import assert_close

from kernels import api, eager, log_softmax, operators, ops, softmax, unwatched
from kernels.frontier import backward, columns, frontier
from kernels.frontier.operators import Causal, Matrix, Operator

torch.manual_seed(0)
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
NEAR = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float64: 1e-12}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Operator]]:
    """CPU tensors take the way of CUDA tensors; what kernels were told of."""
    told: list[Operator] = []

    def forward(
        x: Tensor, out: Tensor, invariant: bool = False, shape: Any = None,
        operator: Operator | None = None, mask: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        assert operator is not None
        assert frontier.rows_of(x)[:2] == frontier.rows_of(out)[:2]
        told.append(operator)
        with torch._C._AutoDispatchBelowADInplaceOrView():
            return out.copy_(by_rows(x, operator, mask))

    def gradient(grad: Tensor, y: Tensor, out: Tensor, of: backward.Gradient) -> Tensor:
        outer, inner = struct.unpack("<ff", struct.pack("<q", of.argument))
        g, p = grad.double(), y.double() * inner
        if of.log:
            dx = outer * (g - p.mul(math.log(2)).exp() * g.sum(-1, keepdim=True))
            dx = dx.masked_fill(p == -math.inf, 0.0) if of.masked else dx
        else:
            dx = outer * y * (g - (g * p).sum(-1, keepdim=True))
        return out.copy_(dx)

    def by_columns(x: Tensor, dim: int, out: Tensor, log: bool = False) -> Tensor:
        assert log
        told.append(Operator(log=True))
        with torch._C._AutoDispatchBelowADInplaceOrView():
            return out.copy_(torch.log_softmax(x, dim))

    monkeypatch.setattr(frontier, "softmax", forward)
    monkeypatch.setattr(columns, "softmax", by_columns)
    monkeypatch.setattr(backward, "softmax_backward", gradient)
    monkeypatch.setattr(api, "_by_kernel", lambda x, kind: kind in frontier.NAMES)
    monkeypatch.setattr(ops, "served", lambda device: True)
    with torch.library._scoped_library("roofline", "IMPL") as library, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are overridden on purpose
        for name, kernel in (("", operators._cuda), ("_backward", operators._cuda_backward)):
            library.impl(f"softmax_operator{name}", kernel, "CPU", allow_override=True)
        yield told


def by_rows(x: Tensor, operator: Operator, mask: Tensor | None) -> Tensor:
    """What a kernel makes of rows: where a mask's row lies is all that it knows of it."""
    count, cols = frontier.rows_of(x)[:2]
    rows = x.reshape(count, cols).double() * operator.times
    if isinstance(told := operator.mask, Causal):
        seen = torch.arange(count)[:, None] % told.count + told.more
        rows = rows.masked_fill(torch.arange(cols) >= seen, -math.inf)
    elif isinstance(told, Matrix):
        assert mask is not None
        above, n2 = torch.arange(count) // told.n2, torch.arange(count) % told.n2
        places = torch.stack((above // told.n1, above % told.n1, n2), -1)
        starts = (places * torch.tensor(told.strides)).sum(-1, keepdim=True)
        whole = mask.untyped_storage().nbytes() // mask.itemsize
        memory = torch.as_strided(mask, (whole,), (1,), 0)
        values = memory[mask.storage_offset() + starts + told.step * torch.arange(cols)]
        rows = rows.masked_fill(~values, -math.inf) if told.boolean else rows + values.double()
    result = torch.log_softmax(rows, -1) if operator.log else torch.softmax(rows, -1)
    return (result * operator.after).reshape(x.shape)


def tensors(dtype: torch.dtype) -> Iterator[Tensor]:
    """Tensors that lie in several ways."""
    for shape in ((), (7,), (3, 5), (2, 3, 4), (2, 2, 3, 5), (0, 3), (3, 0)):
        yield torch.randn(shape).to(dtype)
    wide = torch.randn(4, 6, 10).to(dtype)
    yield from (wide[:, :, 1:8], wide[..., ::2], wide.transpose(0, 2), wide.mT)


def masks(shape: tuple[int, ...], dtype: torch.dtype) -> Iterator[Tensor]:
    """Masks that are broadcast to ``shape`` in several ways, of which every row keeps something."""
    for own in {
        tuple(shape), tuple(shape[1:]), shape[-1:], (*shape[:-1], 1)[: len(shape)],
        tuple(n if i % 2 else 1 for i, n in enumerate(shape)),
    }:  # fmt: skip
        yield torch.rand(own) < 0.7
        yield torch.randn(own).to(dtype)


def exact(
    x: Tensor, mask: Tensor | None = None, dim: int = -1, log: bool = False, scale: float = 1.0,
    factor: float = 1.0, is_causal: bool = False,
) -> Tensor:  # fmt: skip
    mask = mask if mask is None or mask.dtype == torch.bool else mask.double()
    return operators.composed(x.double(), mask, dim, None, log, scale, factor, is_causal)


FUNCTIONS = {softmax: False, log_softmax: True}


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_factors_along_any_dimension(
    served: list[Operator], function: Callable, dtype: torch.dtype
):
    for x in tensors(dtype):
        for dim, (scale, factor) in product(
            range(-max(1, x.dim()), max(1, x.dim())), ((1.0, 1.0), (0.25, -3.0), (-2.0, 1.0))
        ):
            y = function(x, dim, scale=scale, factor=factor)
            wanted = exact(x, None, dim, FUNCTIONS[function], scale, factor)
            assert_close(y.double(), wanted, atol=NEAR[dtype], rtol=NEAR[dtype])
            assert y.dtype == dtype
            assert y.is_contiguous()
    # A factor below 0 turns the largest into the smallest: no kernel has it.
    assert {o.times for o in served} <= {1.0, 0.25}
    assert bool(served) == (dtype in DTYPES)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_masks_however_they_are_broadcast(
    served: list[Operator], function: Callable, dtype: torch.dtype
):
    for x in tensors(dtype):
        for mask, dim in product(masks(x.shape, dtype), (0, -1)):
            y = function(x, dim, mask=mask, scale=0.5, factor=2.0)
            wanted = exact(x, mask, dim, FUNCTIONS[function], 0.5, 2.0)
            near = 10 * NEAR[dtype]  # a sum that PyTorch rounds
            assert_close(y.double(), wanted, atol=near, rtol=near, equal_nan=True)
    assert {type(o.mask) for o in served} == {Matrix}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_causal_rows(served: list[Operator], function: Callable):
    for x in (torch.randn(3, 5), torch.randn(5, 3), torch.randn(2, 3, 4, 4)[:, ::2]):
        y = function(x, is_causal=True)
        assert_close(y, exact(x, None, -1, FUNCTIONS[function], is_causal=True).float())
    assert {type(o.mask) for o in served} == {Causal}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients_are_those_of_the_composed(
    served: list[Operator], function: Callable, dtype: torch.dtype
):
    x = torch.randn(2, 3, 4, 5).to(dtype)
    added, seen = torch.randn(3, 1, 5).to(dtype), torch.rand(2, 1, 4, 5) < 0.7
    seen[..., 0] = True
    seen[0, 0, 1] = False  # a row that sees nothing, as padding does
    cases: list[tuple[Tensor | None, dict[str, Any]]] = [
        (None, {"scale": 0.5, "factor": -2.0}), (added, {"scale": 0.5}), (seen, {}),
        (None, {"is_causal": True, "factor": 3.0}), (None, {"factor": 0.0}), (added, {"dim": 1}),
    ]  # fmt: skip
    near, log = 20 * NEAR[dtype], FUNCTIONS[function]
    for mask, options in cases:
        mine, wide = (leaves(x, mask), leaves(x.double(), mask))
        y, wanted = function(mine[0], mask=mine[1], **options), exact(*wide, log=log, **options)
        # Results that are -inf have no gradient worth the name.
        grad = torch.randn(y.shape).to(dtype).masked_fill(y.isinf(), 0.0)
        y.backward(grad)
        wanted.backward(grad.double())
        for a, b in zip(mine, wide, strict=True):
            if a is not None and b is not None and a.requires_grad:
                assert a.grad is not None
                assert b.grad is not None
                assert a.grad.shape == a.shape
                assert_close(a.grad.double(), b.grad.double(), atol=near, rtol=near)
    assert len(served) == len(cases)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_products_of_16_bits_are_rounded_once(function: Callable, dtype: torch.dtype):
    x = torch.randn(50, 200).to(dtype)
    y, wanted = (
        function(x, scale=0.3, factor=0.7),
        exact(x, None, -1, FUNCTIONS[function], 0.3, 0.7),
    )
    unit = torch.finfo(dtype).eps
    assert y.dtype == dtype
    assert ((y.double() - wanted) / wanted).abs().max() < 0.51 * unit
    large = function(torch.tensor([60_000.0, 100.0]).to(dtype), scale=2.0)
    assert large[0] == (0.0 if FUNCTIONS[function] else 1.0)


def test_numbers_of_other_types_are_taken_as_torch_takes_them():
    x = torch.randn(3, 5)
    third: Any = Fraction(1, 3)
    first: Any = np.int64(0)
    last: Any = np.int32(-1)
    assert_close(softmax(x, scale=third), softmax(x, scale=1 / 3))
    assert_close(softmax(x, dim=first), torch.softmax(x, 0))
    assert_close(log_softmax(x, dim=last), torch.log_softmax(x, -1))


def leaves(x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Copies that gather gradients, as far as they can."""
    mask = mask if mask is None or mask.dtype == torch.bool else mask.to(x.dtype)
    copy = mask.clone() if mask is not None else None
    if copy is not None and copy.is_floating_point():
        copy.requires_grad_()
    return x.clone().requires_grad_(), copy


@pytest.mark.parametrize("log", [False, True])
def test_gradients_pass_gradcheck_in_float64(log: bool):
    mask = torch.randn(5, dtype=torch.float64, requires_grad=True)
    for dim, factor in ((0, 1.0), (1, -2.0)):
        x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)

        def call(x: Tensor, mask: Tensor, dim: int = dim, factor: float = factor) -> Tensor:
            return operators.softmax_operator(x, mask, dim, None, log, 0.5, factor, False, False)

        assert torch.autograd.gradcheck(call, (x, mask))
        assert torch.autograd.gradgradcheck(call, (x, mask))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_operators_keep_pytorchs_rules(served: list[Operator], dtype: torch.dtype):
    some = torch.randn(()), torch.randn(4, 3, 5).mT, torch.randn(0, 3)
    for x, log in zip((t.to(dtype) for t in some), (False, True, False), strict=True):
        leaf, dim = x.detach().requires_grad_(), x.dim() // 2 if x.dim() else 0
        mask = torch.randn(x.shape)  # finite: opcheck takes no NaN for another
        for given in ((None, dim, None), (mask, dim, torch.float32)):
            opcheck(operators.softmax_operator, (leaf, *given, log, 0.5, 2.0, False, False))
        y = exact(x, None, dim, log).to(dtype).requires_grad_()
        given = torch.randn_like(y).requires_grad_(), y, dim, torch.float32, log, 0.5, 2.0, False
        opcheck(operators.softmax_operator_backward, given)


def test_vmap_is_a_batch(served: list[Operator]):
    x, mask = torch.randn(3, 4, 5), torch.rand(3, 5) < 0.7
    for log, dims in product((False, True), ((0, None), (0, 0), (None, 0))):
        given = [t if at is not None else t[0] for t, at in zip((x, mask), dims, strict=True)]
        call = partial(_with_mask, log)
        each = torch.vmap(call, in_dims=dims)(*given)
        for i in range(3):
            one = [t[i] if at is not None else t for t, at in zip(given, dims, strict=True)]
            assert_close(each[i], call(*one), equal_nan=True)


def _with_mask(log: bool, x: Tensor, mask: Tensor) -> Tensor:
    return (log_softmax if log else softmax)(x, mask=mask, scale=0.5)


def test_it_compiles_as_one_graph(served: list[Operator]):
    x, mask = torch.randn(4, 6, requires_grad=True), torch.rand(6) < 0.7

    def call(x: Tensor) -> Tensor:
        return log_softmax(2 * x, mask=mask, scale=0.5).clamp(min=-9.0) + softmax(x, is_causal=True)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert_close(compiled(x), call(x))
    assert_close(*(torch.autograd.grad(f(x).sum(), x)[0] for f in (compiled, call)))


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a mask of integers": (
        lambda: softmax(torch.zeros(2, 3), mask=torch.ones(3, dtype=torch.int64)), TypeError,
        "takes a mask of torch.bool, or of torch.float32 to be added; got torch.int64",
    ),
    "another dtype": (
        lambda: log_softmax(torch.zeros(2, 3).half(), mask=torch.zeros(3)), TypeError,
        "log_softmax takes a mask of torch.bool, or of torch.float16",
    ),
    "not broadcast": (
        lambda: softmax(torch.zeros(2, 3), mask=torch.ones(2) > 0), ValueError,
        r"a mask that is broadcast to \(2, 3\); got \(2,\)",
    ),
    "more dimensions": (
        lambda: softmax(torch.zeros(3), mask=torch.ones(2, 3) > 0), ValueError, "is broadcast to",
    ),
    "two masks": (
        lambda: softmax(torch.zeros(2, 3), mask=torch.ones(3) > 0, is_causal=True), ValueError,
        "takes a mask or is_causal=True; got both",
    ),
    "causal along another dimension": (
        lambda: softmax(torch.zeros(2, 3), 0, is_causal=True), ValueError, "along the last dim",
    ),
    "causal of one row": (
        lambda: log_softmax(torch.zeros(3), is_causal=True), ValueError, "got shape",
    ),
    "no tensor": (lambda: log_softmax([1.0]), TypeError, "log_softmax expects a torch.Tensor"),  # pyright: ignore[reportArgumentType]
    "no such dim": (lambda: log_softmax(torch.zeros(2), 1), IndexError, "log_softmax expects a d"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_gets_a_sentence(case: str):
    call, error, sentence = WRONG[case]
    with pytest.raises(error, match=sentence):
        call()


def test_out_is_written(served: list[Operator]):
    x = torch.randn(3, 5)
    out = torch.empty(5, 3).t()
    assert log_softmax(x, out=out, scale=0.5) is out
    assert_close(out, torch.log_softmax(0.5 * x, -1))


def test_what_the_fast_way_takes_is_plain(served: list[Operator], monkeypatch: pytest.MonkeyPatch):
    """A softmax that asks for more never goes where nothing of it is known."""
    monkeypatch.setattr(unwatched, "DENSE", {torch._C._dispatch_keys(torch.zeros(1)).raw_repr()})
    monkeypatch.setattr(api, "known", lambda *_: pytest.fail("went past the operator"))
    for name in ("kept", "first"):
        monkeypatch.setattr(eager, name, lambda *_: None)
    x = torch.randn(3, 3)
    for options in (
        {"scale": 0.5}, {"factor": 2.0}, {"mask": torch.ones(3) > 0}, {"is_causal": True},
    ):  # fmt: skip
        partial(softmax, **options)(x)
    assert len(served) == 4
