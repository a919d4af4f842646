"""Calls past PyTorch's dispatcher: a launch is prepared once, and right wherever tensors lie then.

Kernels are torch's, on the memory of this machine: they know addresses, and what was prepared.
"""

import ctypes
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from kernels import api, eager, log_softmax, operators, ops, prepared, softmax, unwatched
from kernels.frontier import backward, columns, frontier
from kernels.frontier.operators import Operator
from tests.kernels.test_api_operators import NEAR, by_rows

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def at(address: int, like: Tensor) -> Tensor:
    """The tensor at ``address`` that lies as ``like``."""
    places = 1 + sum((n - 1) * step for n, step in zip(like.shape, like.stride(), strict=True))
    memory = (ctypes.c_byte * (places * like.itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=like.dtype).as_strided(like.shape, like.stride())


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was prepared, or went by the dispatcher or a kernel's gradient."""
    seen: list[str] = []

    def of_rows(
        x: Tensor, out: Tensor, invariant: bool, shape: None = None,
        operator: Operator | None = None,
    ) -> Callable[..., None]:  # fmt: skip
        seen.append("rows")
        assert frontier.rows_of(x)[:2] == frontier.rows_of(out)[:2]
        lies_x, lies_out = (torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
                            for t in (x, out))  # fmt: skip

        def launch(stream: int, source: int, to: int, *mask: int) -> None:
            assert stream == 77
            told = operator or Operator()
            given = None
            if mask:
                kind = torch.bool if told.mask.kind == "chosen" else x.dtype  # pyright: ignore
                memory = (ctypes.c_byte * MASK_BYTES[0]).from_address(mask[0])
                given = torch.frombuffer(memory, dtype=kind)
            at(to, lies_out).copy_(by_rows(at(source, lies_x), told, given))

        return launch

    def of_columns(x: Tensor, dim: int, out: Tensor, log: bool = False) -> Callable[..., None]:
        seen.append("columns")
        assert columns.takes(x, dim, out)
        lies = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
                for t in (x, out)]  # fmt: skip

        def launch(stream: int, source: int, to: int) -> None:
            of = torch.log_softmax if log else torch.softmax
            at(to, lies[1]).copy_(of(at(source, lies[0]).double(), dim))

        return launch

    def gradient(grad: Tensor, y: Tensor, out: Tensor, of: Any = None) -> Tensor:
        seen.append("gradient")
        of = of or backward.Gradient(False, 1.0, 1.0, False)
        with torch.no_grad():  # a kernel has no gradient of its own
            return out.copy_(operators.composed_backward(grad, y, -1, y.dtype, *of))

    monkeypatch.setattr(frontier, "prepare", of_rows)
    monkeypatch.setattr(columns, "prepare", of_columns)
    monkeypatch.setattr(backward, "softmax_backward", gradient)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 77, raising=False)
    monkeypatch.setattr(prepared, "make_current", lambda device: None)
    monkeypatch.setattr(prepared, "relaxed", nullcontext)
    monkeypatch.setattr(prepared, "THREAD", prepared._Thread())
    monkeypatch.setattr(api, "_by_kernel", lambda x, kind: kind in frontier.NAMES)
    monkeypatch.setattr(unwatched, "DENSE", {torch._C._dispatch_keys(torch.zeros(1)).raw_repr()})
    monkeypatch.setattr(ops, "served", lambda device: True)
    for module, name in ((ops, "softmax"), (operators, "softmax_operator")):
        slow = partial(lambda of, *a: seen.append("dispatcher") or of(*a), getattr(module, name))
        monkeypatch.setattr(module, name, slow)
    return seen


MASK_BYTES = [0]


def masks(x: Tensor, dim: int) -> list[Tensor | None]:
    """None, and masks that lie as a kernel takes them, and as it does not."""
    if x.dim() < 2:
        return [None]
    one = torch.rand(x.shape) < 0.7
    return [None, one, one[:1], one.to(x.dtype), one.transpose(0, 1).contiguous().transpose(0, 1)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_second_call_finds_what_the_first_prepared(made: list[str], dtype: torch.dtype):
    whole = torch.randn(3, 4, 8).to(dtype)
    layouts = (whole, whole[:, 1:3], whole.mT, whole[..., 1:7], whole[0, 0])
    for x, log in product(layouts, (False, True)):
        for dim in range(-x.dim(), x.dim()):
            call = log_softmax if log else softmax
            expected = (torch.log_softmax if log else torch.softmax)(x.double(), dim)
            made.clear()
            assert_close(call(x, dim).double(), expected, atol=NEAR[dtype], rtol=NEAR[dtype])
            prepared_now = list(made)
            other = torch.empty_strided(x.shape, x.stride(), dtype=dtype).copy_(x.flip(0))
            expected = (torch.log_softmax if log else torch.softmax)(other.double(), dim)
            made.clear()
            got = call(other, dim)
            assert_close(got.double(), expected, atol=NEAR[dtype], rtol=NEAR[dtype])
            assert got.is_contiguous()
            if "dispatcher" not in prepared_now:
                assert "dispatcher" not in made
                assert len(prepared_now) <= 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_masks_and_factors_are_in_the_launch(made: list[str], dtype: torch.dtype):
    x = torch.randn(4, 6, 8).to(dtype)
    for mask in masks(x, -1):
        MASK_BYTES[0] = mask.untyped_storage().nbytes() if mask is not None else 0
        for scale, factor, causal in ((1.0, 1.0, False), (0.5, 3.0, False), (1.0, 1.0, True)):
            if causal and mask is not None:
                continue
            exact = operators.composed(
                x.double(), mask.double() if mask is not None and mask.dtype == dtype else mask,
                -1, None, False, scale, factor, causal,
            )  # fmt: skip
            for _ in range(2):
                made.clear()
                y = softmax(x, scale=scale, factor=factor, mask=mask, is_causal=causal)
                near = 3 * NEAR[dtype]
                assert_close(y.double(), exact, atol=near, rtol=near, equal_nan=True)
            assert made == []


def test_what_a_launch_depends_on_prepares_another(made: list[str]):
    memory = torch.randn(4096)
    x = memory[: 4 * 16].view(4, 16)
    same = (
        partial(log_softmax, x),
        partial(log_softmax, x, 1),
        partial(log_softmax, memory[32:96].view(4, 16)),
    )
    others = (
        partial(log_softmax, memory[1:65].view(4, 16)),  # elsewhere between two lines
        partial(log_softmax, memory[: 4 * 20].view(4, 20)[:, :16]),
        partial(log_softmax, memory[:48].view(3, 16)),
        partial(log_softmax, x.half()),
        partial(log_softmax, x, scale=0.5),
        partial(log_softmax, x, factor=0.5),
        partial(log_softmax, x, is_causal=True),
        partial(log_softmax, x, invariant=True),
        partial(log_softmax, x, out=torch.empty(4, 16)),
        partial(log_softmax, x, out=torch.empty(4, 20)[:, :16]),
        partial(log_softmax, x, out=torch.empty(65)[1:].view(4, 16)),
        partial(log_softmax, x, mask=torch.ones(16, dtype=torch.bool)),
        partial(log_softmax, x, mask=torch.ones(4, 16, dtype=torch.bool)),
        partial(log_softmax, x, mask=torch.zeros(16)),
        partial(softmax, x, scale=0.5),
    )
    MASK_BYTES[0] = 64
    keys: set[Any] = set()
    for call in others:
        call()
        assert len(prepared.THREAD.launches) == len(keys) + 1, call
        keys = set(prepared.THREAD.launches)
    count = len(keys)
    for call in same:
        call()
    # A dimension that is named otherwise is another key of the same launch.
    assert len(prepared.THREAD.launches) == count + 2


def test_out_is_written_in_place_and_beside_and_else_by_a_copy(made: list[str]):
    x = torch.randn(5, 8)
    for _ in range(2):
        expected = torch.softmax(x, -1)
        beside = torch.full((5, 8), torch.nan)
        assert softmax(x, out=beside) is beside
        assert_close(beside, expected)
        mine = x.clone()
        version = mine._version
        assert softmax(mine, out=mine) is mine
        assert mine._version > version
        assert_close(mine, expected)
    assert "dispatcher" not in made
    memory = torch.randn(60)
    x, out = memory[:40].view(5, 8), memory[8:48].view(5, 8)
    expected = torch.softmax(x, -1)
    made.clear()
    softmax(x, out=out)  # they overlap in part: though such shapes have a launch, it is not taken
    assert made == ["dispatcher"]
    assert_close(out, expected)
    made.clear()
    softmax(torch.randn(5, 8), out=torch.zeros(40).as_strided((5, 8), (4, 1)))  # its rows overlap
    assert made == ["dispatcher"]
    with pytest.raises(ValueError, match="a place for each result"):
        softmax(torch.randn(5, 8), out=torch.zeros(8).expand(5, 8))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mask_that_out_is_written_over_takes_the_long_way(made: list[str], dtype: torch.dtype):
    x, near = torch.randn(5, 8).to(dtype), 3 * NEAR[dtype]
    kinds = torch.bool, dtype
    for kind, (start, *steps), known in product(
        kinds, ((0, 8, 1), (8, 8, 1), (16, 0, 1)), (False, True)
    ):
        memory = torch.randn(60).to(dtype)
        mask = memory.as_strided((5, 8), steps, start)
        if kind == torch.bool:  # bytes of what is written
            memory.view(torch.uint8).random_(2)
            mask = memory.view(torch.bool).as_strided((5, 8), steps, start)
        MASK_BYTES[0] = memory.untyped_storage().nbytes()
        prepared.THREAD.launches.clear()
        if known:  # a launch for tensors that lie so
            softmax(x, out=torch.empty_like(x), mask=mask)
        out = memory.as_strided((5, 8), (8, 1), 8)
        wide = mask.clone() if kind == torch.bool else mask.double()
        exact = operators.composed(x.double(), wide, -1, None, False, 1.0, 1.0, False)
        made.clear()
        assert softmax(x, out=out, mask=mask) is out
        assert made == ["dispatcher"]
        assert_close(out.double(), exact, atol=near, rtol=near, equal_nan=True)


def test_bad_input_is_told_of_after_good_input_too(made: list[str]):
    x = torch.randn(3, 5)
    log_softmax(x)
    for wrong, error, sentence in (
        (lambda: log_softmax(x, [1]), TypeError, "int for dim"),  # pyright: ignore
        (partial(log_softmax, x, 2), IndexError, "got 2"),
        (lambda: log_softmax(x, dtype="half"), TypeError, "'half'"),  # pyright: ignore
        (partial(log_softmax, x, out=x[:2]), ValueError, "expects out of shape"),
        (partial(log_softmax, x, mask=torch.ones(4) > 0), ValueError, "broadcast"),
        (partial(log_softmax, x, mask=torch.ones(5), is_causal=True), ValueError, "got both"),
        (partial(log_softmax, x.requires_grad_(), out=torch.empty(3, 5)), RuntimeError, "no_grad"),
    ):
        with pytest.raises(error, match=sentence):
            wrong()


@pytest.mark.parametrize("call", [softmax, log_softmax])
def test_a_gradient_goes_past_the_dispatcher_both_ways(
    made: list[str], call: Callable[..., Tensor]
):
    theirs, x = getattr(torch, call.__name__), torch.empty(0)
    for _ in range(2):
        made.clear()
        x, grad = torch.randn(4, 6), torch.randn(4, 6)
        leaf = x.clone().requires_grad_()
        y = call(leaf)
        assert y.requires_grad
        y.backward(grad)
        wide = x.double().requires_grad_()
        theirs(wide, -1).backward(grad.double())
        assert_close(leaf.grad.double(), wide.grad, atol=1e-6, rtol=1e-5)  # pyright: ignore
        assert "dispatcher" not in made
        assert "gradient" in made
    leaf = x.clone().requires_grad_()
    call(leaf).sum().backward()  # of a gradient that is expanded
    assert_close(leaf.grad, torch.autograd.grad(theirs(leaf, -1).sum(), leaf)[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("call", [softmax, log_softmax])
@pytest.mark.parametrize(
    ("options", "kernels"),
    [
        ({"scale": 0.5, "factor": 3.0}, True),
        ({"mask": torch.arange(6) < 4}, True),
        ({"mask": torch.arange(36).view(6, 6) % 13 < 6}, True),  # the second row sees nothing
        ({"is_causal": True}, True),
        ({"dim": 1}, True),
        ({"dim": 0}, False),
        ({"factor": 0.0}, False),
    ],
)
def test_a_gradient_of_rows_that_lie_as_a_kernel_takes_them_is_one_launch(
    made: list[str], monkeypatch: pytest.MonkeyPatch, call: Callable[..., Tensor],
    options: dict[str, Any], kernels: bool,
):  # fmt: skip
    for module in (ops, operators):
        way = partial(lambda of, *a: made.append("by way of copies") or of(*a),
                      module._cuda_backward)  # fmt: skip
        monkeypatch.setattr(module, "_cuda_backward", way)
    mask = options.get("mask")
    MASK_BYTES[0] = mask.untyped_storage().nbytes() if mask is not None else 0
    leaf, grad = torch.randn(6, 6, requires_grad=True), torch.randn(6, 6)
    (expected,) = torch.autograd.grad(
        operators.composed(
            leaf.double(), mask, options.get("dim", -1), None, call is log_softmax,
            options.get("scale", 1.0), options.get("factor", 1.0), "is_causal" in options,
        ),
        leaf, grad.double(),
    )  # fmt: skip
    for _ in range(2):
        made.clear()
        y = call(leaf, **options)
        (dx,) = torch.autograd.grad(y, leaf, grad.to(y.dtype))
        assert_close(dx, expected, atol=1e-6, rtol=1e-5)
        assert ("gradient" in made and "by way of copies" not in made) == kernels


@pytest.mark.parametrize("call", [softmax, log_softmax])
def test_gradients_of_gradients_hooks_and_batches_of_them(
    made: list[str], call: Callable[..., Tensor]
):
    x, grad, v = (torch.randn(4, 6) for _ in range(3))
    theirs = getattr(torch, call.__name__)

    def second(f: Callable[..., Tensor], x: Tensor) -> Tensor:
        leaf = x.clone().requires_grad_()
        (dx,) = torch.autograd.grad(f(leaf, -1), leaf, grad.to(x.dtype), create_graph=True)
        return torch.autograd.grad(dx, leaf, v.to(x.dtype))[0]

    assert_close(second(call, x).double(), second(theirs, x.double()), atol=1e-5, rtol=1e-4)
    leaf = x.clone().requires_grad_()
    several = torch.randn(3, 4, 6)
    (mine,) = torch.autograd.grad(call(leaf, -1), leaf, several, is_grads_batched=True)
    (other,) = torch.autograd.grad(theirs(leaf, -1), leaf, several, is_grads_batched=True)
    assert_close(mine, other, atol=1e-6, rtol=1e-5)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: made.append("saved") or t, lambda t: t):
        call(leaf)
    assert made[-1] == "saved"
    # What is saved and written over since is refused.
    y = call(leaf)
    with torch.no_grad():
        y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward(grad)


@pytest.mark.parametrize("call", [softmax, log_softmax])
def test_a_mode_and_a_tangent_see_the_gradient(made: list[str], call: Callable[..., Tensor]):
    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            made.append(func.name())
            return func(*args, **(kwargs or {}))

    leaf, (grad, tangent) = torch.randn(4, 6, requires_grad=True), torch.randn(2, 4, 6)
    y = call(leaf)
    with Names():
        y.backward(grad)
    assert [name for name in made if "backward" in name]
    theirs = getattr(torch, call.__name__)
    found = []
    for f in (call, partial(theirs, dim=-1)):
        y = f(leaf)
        with forward_ad.dual_level():
            (dx,) = torch.autograd.grad(y, leaf, forward_ad.make_dual(grad, tangent))
            found.append(forward_ad.unpack_dual(dx).tangent)
    assert_close(found[0], found[1], atol=1e-6, rtol=1e-5)


def test_transforms_see_the_operator(made: list[str]):
    x = torch.randn(3, 5)
    each = torch.vmap(lambda row: log_softmax(row))(x)
    assert_close(each, torch.log_softmax(x, -1))
    leaf = torch.randn(5, requires_grad=True)
    both = torch.vmap(lambda row: row + softmax(leaf, -1))(x)  # not batched, within a transform
    assert_close(both, x + torch.softmax(leaf, -1))
    both.sum().backward()
    assert leaf.grad is not None


def test_nothing_is_kept_of_what_is_copied_or_empty(made: list[str]):
    for x in (torch.empty(0, 5), torch.empty(3, 0), torch.randn(3, 8)[:, ::2]):
        assert_close(log_softmax(x), torch.log_softmax(x, -1))
    assert prepared.THREAD.launches == {}
    assert eager.first(torch.randn(3, 4), None, None, eager.Asked(
        True, -1, torch.float64, False, 1.0, False, 1.0)) is None  # fmt: skip


@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_a_launch_that_is_kept_takes_no_argument_of_another_type(made: list[str], scale: float):
    x = torch.randn(3, 8)
    usual: dict[str, Any] = {"scale": scale, "factor": 1.0, "invariant": False, "dim": 1}
    others = ("factor", True), ("invariant", 0), ("dim", True), ("is_causal", 0), ("dtype", [1])
    for name, like in others:
        softmax(x, **usual)
        made.clear()
        softmax(x, **usual)
        assert made == []
        with pytest.raises(TypeError, match=f"softmax expects .*{name}"):
            softmax(x, **{**usual, name: like})
    # A whole number is one: it goes the long way, and finds the same launch.
    assert torch.equal(softmax(x, scale=2), softmax(x, scale=2.0))
