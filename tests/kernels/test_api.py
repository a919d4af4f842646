"""kernels.softmax means what torch.softmax means, for any tensor, however it is called.

Without a GPU torch stands in for the kernels, and refuses what they would refuse.
"""

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.library import opcheck
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from kernels import api, log_softmax, ops, softmax, topk_softmax

torch.manual_seed(0)
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def layouts(dtype: torch.dtype) -> Iterator[Tensor]:
    """Tensors that lie in memory in every way that is told apart."""
    for shape in ((), (1,), (7,), (3, 5), (2, 3, 4), (2, 3, 4, 5), (0,), (0, 3), (3, 0), (2, 1, 3)):
        yield torch.randn(shape).to(dtype)
    wide = torch.randn(4, 6, 10).to(dtype)
    yield from (wide[:, :, 1:8], wide[:, 1:5], wide[..., ::2], wide.transpose(0, 2), wide.mT)
    yield from (wide[:1], wide[:, :1], wide[..., :1], wide[0, 0].expand(5, 10), wide.flatten()[3:])


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
def test_any_tensor_and_dim_give_what_torch_gives(served: list[str], dtype: torch.dtype):
    for x in layouts(dtype):
        for dim in range(-max(1, x.dim()), max(1, x.dim())):
            for to in (None, torch.float32, torch.float64):
                expected = torch.softmax(x, dim, dtype=to)
                y = softmax(x, dim, dtype=to, invariant=True)
                assert_close(y, expected)
                assert y.dtype == expected.dtype
                assert y.is_contiguous()
    assert "direct" not in served or dtype != torch.float64


def test_a_plain_call_goes_past_the_dispatcher_and_no_other_does(served: list[str]):
    x = torch.randn(3, 5)
    for call in (lambda: softmax(x), lambda: softmax(x, 1), lambda: softmax(x, dtype=x.dtype)):
        call()
        assert served == ["direct", "softmax"]
        served.clear()
    softmax(x, invariant=True)
    assert served == ["direct", "invariant"]

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(func.name())
            return func(*args, **(kwargs or {}))

    names: list[str] = []
    with Watching():
        softmax(x)
    assert names[0] == "roofline::softmax"
    traced: Any = torch.jit.trace(softmax, x)
    assert "roofline::softmax" in str(traced.graph)
    served.clear()
    with torch.inference_mode():
        softmax(x)
    softmax(x.requires_grad_())
    softmax(x.mT.detach())
    assert served == ["direct", "softmax", "direct", "softmax", "softmax"]


def test_dimensions_before_the_last_go_down_columns_where_memory_lies_so(served: list[str]):
    x, wide = torch.randn(2, 3, 4), torch.randn(4, 6, 10)
    across = x.transpose(0, 1)  # what is outside of its second dimension lies within its steps
    for y, dim, way in (
        (x, 0, "columns"), (x, -2, "columns"), (x, -1, "direct"), (wide[:, 1:5, 1:8], 0, "softmax"),
        (wide[:, 1:5], 1, "columns"), (across, 0, "softmax"), (across, 1, "columns"),
        (x.mT, 1, "softmax"), (x[..., :1], 1, "softmax"), (wide[..., ::2], 0, "softmax"),
    ):  # fmt: skip
        served.clear()
        assert_close(softmax(y, dim), torch.softmax(y, dim))
        assert served[0] == way, (y.stride(), dim)
        served.clear()
        softmax(y, dim, invariant=True)
        assert "columns" not in served
    for place in (x.clone(), torch.empty(2, 3, 5)[..., :4], torch.empty(2, 5, 4)[:, 2:]):
        served.clear()
        expected = torch.softmax(x, 1)
        assert softmax(x, 1, out=place) is place
        assert served == ["columns"]
        assert_close(place, expected)
        served.clear()
        softmax(place, 1, out=place)
        assert served == ["columns"]
        assert_close(place, torch.softmax(expected, 1))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_out_may_lie_anywhere(served: list[str], dim: int):
    x = torch.randn(6, 6)
    memory = torch.full((12, 14), 7.0)
    for x in (torch.randn(6, 6), torch.randn(9, 8)[1:7, 1:7], torch.randn(6, 6).t()):
        places = [memory[2:8, 3:9], memory[2:8, 3:9].t(), memory[::2, ::2][:, :6]]
        # The input itself, and memory that it shares otherwise.
        expected = torch.softmax(x, dim)
        for to in (*places, x.clone(), x.clone().t()):
            assert softmax(x, dim, out=to) is to
            assert_close(to, expected)
            to.fill_(7.0)
            assert bool((memory == 7.0).all())
        for place in (lambda y: y, lambda y: y.t(), lambda y: y.flip(0)):
            y = x.clone()
            shared = place(y)
            softmax(y, dim, out=shared)
            assert_close(shared, expected)
    with pytest.raises(ValueError, match="a place for each result"):
        softmax(x, dim, out=torch.zeros(6).expand(6, 6))


def test_memory_that_overlaps_in_part_is_written_after_it_was_read(served: list[str]):
    memory = torch.randn(40)
    x, out = memory[:35].view(5, 7), memory[5:].view(5, 7)
    expected = torch.softmax(x, -1)
    assert_close(softmax(x, out=out), expected)


def test_a_gradient_that_needs_what_out_overwrote_is_refused(served: list[str]):
    x, weight = torch.randn(4, 5), torch.randn(4, 5, requires_grad=True)
    loss = (weight * x).sum()
    softmax(x, out=x)
    assert served
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


X = torch.randn(3, 5)
WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no tensor": (lambda: softmax([1.0]), TypeError, "got list"),  # pyright: ignore
    "dim": (lambda: softmax(X, 2), IndexError, "from -2 to 1 .* got 2"),
    "no dim": (lambda: softmax(X, None), TypeError, "int for dim"),  # pyright: ignore
    "dtype": (lambda: softmax(X, dtype=torch.int32), TypeError, "got torch.int32"),
    "no dtype": (lambda: softmax(X, dtype="half"), TypeError, "dtype; got 'half'"),  # pyright: ignore
    "integers": (lambda: softmax(X.long()), TypeError, "got torch.int64: pass dtype="),
    "shape": (lambda: softmax(X, out=X[:2].clone()), ValueError, r"shape \(3, 5\).* got \(2, 5\)"),
    "kind": (lambda: softmax(X, out=X.double()), ValueError, "got .*float64"),
    "cast": (lambda: softmax(X, dtype=torch.half, out=X.clone()), ValueError, "torch.float16"),
    "device": (lambda: softmax(X, out=X.to("meta")), ValueError, "on cpu; got .* on meta"),
    "gradient": (
        lambda: softmax(X.clone().requires_grad_(), out=X.clone()), RuntimeError, "no_grad"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_gets_a_sentence(case: str):
    call, error, sentence = WRONG[case]
    with pytest.raises(error, match=sentence):
        call()


def test_without_a_gpu_torch_computes_and_says_so_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    api._warn_once.cache_clear()
    x = torch.randn(3, 5)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            assert_close(softmax(x, 0), torch.softmax(x, 0))
    assert [str(w.message) for w in said] == [
        "softmax found no CUDA GPU, so torch.softmax computes it"
    ]
    assert said[0].filename == __file__


def test_the_registry_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; import kernels, kernels.registry"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'softmin'"):
        __import__("kernels").softmin  # noqa: B018


def gradient(f: Callable[[Tensor], Tensor], x: Tensor, grad: Tensor) -> Tensor:
    leaf = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    f(leaf).backward(grad)
    assert leaf.grad is not None
    return leaf.grad


def test_the_tensor_goes_by_torchs_name_too():
    x = torch.randn(3, 5)
    for call in (softmax, torch.compile(softmax, backend="eager", fullgraph=True)):
        assert torch.equal(call(input=x, dim=0), softmax(x, 0))
    assert torch.equal(log_softmax(dim=-1, input=x), log_softmax(x=x))
    for given, expected in zip(topk_softmax(input=x, k=2), topk_softmax(x, 2), strict=True):
        assert torch.equal(given, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_are_torchs(served: list[str], dtype: torch.dtype):
    near = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    for x in layouts(dtype):
        for dim in range(-max(1, x.dim()), 0):
            for to in (None, torch.float32):
                grad = torch.randn(x.shape).to(to or dtype)
                mine = gradient(partial(softmax, dim=dim, dtype=to), x, grad)
                exact = gradient(partial(torch.softmax, dim=dim), x.double(), grad.double())
                assert mine.dtype == dtype
                assert_close(mine.double(), exact, atol=near, rtol=near)
    assert "backward" in served


def test_gradients_of_gradients_are_right():
    for dim in (0, 1):
        x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
        call = partial(ops.softmax, dim=dim, dtype=None, invariant=False)
        assert torch.autograd.gradcheck(call, x)
        assert torch.autograd.gradgradcheck(call, x)


def test_func_and_forward_mode_are_torchs(served: list[str]):
    x = torch.randn(3, 5)
    mine, theirs = (partial(f, dim=-1) for f in (softmax, torch.softmax))
    for transform in (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian):
        assert_close(transform(mine)(x), transform(theirs)(x))
    each = [torch.vmap(torch.func.grad(lambda v, f=f: f(v)[0]))(x) for f in (mine, theirs)]
    assert_close(*each)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x) * x)
        tangents: list[Any] = [forward_ad.unpack_dual(f(dual)).tangent for f in (mine, theirs)]
    assert_close(*tangents)


def test_func_and_forward_mode_are_torchs_in_a_compiled_graph(served: list[str]):
    def tangent(f: Any) -> Callable[[Tensor], Any]:
        def of(x: Tensor) -> Any:
            with forward_ad.dual_level():
                return forward_ad.unpack_dual(f(forward_ad.make_dual(x, x.cos()))).tangent

        return of

    x, mask = torch.randn(3, 5), torch.randn(5)
    mine = partial(softmax, mask=mask)
    for f, theirs in (
        (softmax, torch.softmax),
        (mine, lambda x, dim: torch.softmax(x + mask, dim)),
    ):
        theirs = partial(theirs, dim=-1)
        for transform in (
            lambda f: lambda x: torch.func.jvp(f, (x,), (x.cos(),))[1],
            lambda f: torch.func.grad(lambda x: f(x).square().sum()), torch.func.hessian, tangent,
        ):  # fmt: skip
            torch._dynamo.reset()
            compiled = torch.compile(transform(f), fullgraph=True, backend="aot_eager")
            assert_close(compiled(x), transform(theirs)(x))
        # What was compiled without a tangent is compiled anew for one.
        torch._dynamo.reset()
        compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
        compiled(x)
        assert_close(tangent(compiled)(x), tangent(theirs)(x))


@pytest.mark.parametrize("in_dim", [0, 1, -1])
def test_vmap_is_a_batch(served: list[str], in_dim: int):
    x = torch.randn(3, 4, 5)
    for dim in (-2, -1, 0, 1):
        mine = torch.vmap(partial(softmax, dim=dim), in_dims=in_dim)(x)
        assert_close(mine, torch.vmap(partial(torch.softmax, dim=dim), in_dims=in_dim)(x))
    scalars = torch.vmap(softmax)(torch.randn(4))
    assert_close(scalars, torch.ones(4))
    y, grad = torch.softmax(x, -1), torch.randn(3, 4, 5)
    call = partial(ops.softmax_backward, dim=0, input_dtype=torch.float32)
    for dims in ((in_dim, in_dim), (in_dim, None), (None, in_dim)):
        given = [t if at is not None else t.movedim(in_dim, 0)[0]
                 for t, at in zip((grad, y), dims, strict=True)]  # fmt: skip
        each = torch.vmap(call, in_dims=dims)(*given)
        for i in range(len(each)):
            one = [t.movedim(in_dim, 0)[i] if at is not None else t
                   for t, at in zip(given, dims, strict=True)]  # fmt: skip
            assert_close(each[i], call(*one))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_it_compiles_as_one_graph(served: list[str], backend: str):
    graphs: list[str] = []

    def watching(module: torch.fx.GraphModule, inputs: list[Tensor]):
        graphs.append(module.code)
        return torch._dynamo.lookup_backend(backend)(module, inputs)

    torch._dynamo.reset()
    for x in (torch.randn(4, 6), torch.randn(6, 4).t(), torch.randn(4, 6).half()):
        for dim, to in ((-1, None), (0, torch.float32)):
            mine = torch.compile(
                lambda x, dim=dim, to=to: softmax(2 * x, dim, dtype=to) + 1,
                fullgraph=True, backend=watching, dynamic=False,
            )  # fmt: skip
            x, grad = x.requires_grad_(), torch.randn(4, 6).to(to or x.dtype)
            y = mine(x)
            assert_close(y, torch.softmax(2 * x, dim, dtype=to) + 1)
            (of_mine,) = torch.autograd.grad(y, x, grad)
            expected = gradient(lambda x, d=dim, t=to: torch.softmax(2 * x, d, dtype=t), x, grad)
            assert_close(of_mine, expected, atol=2e-3, rtol=1e-2)
            x = x.detach()
    assert len(graphs) == 6
    assert all("roofline.softmax" in code for code in graphs)
    out = torch.zeros(4, 6)
    into = torch.compile(lambda x: softmax(x, out=out), fullgraph=True, backend=backend)
    assert_close(into(torch.ones(4, 6)), out)
    assert_close(out, torch.full((4, 6), 1 / 6))


@pytest.mark.parametrize("invariant", [False, True])
def test_one_graph_serves_two_shapes(served: list[str], invariant: bool):
    graphs: list[str] = []

    def watching(module: torch.fx.GraphModule, inputs: list[Tensor]):
        graphs.append(module.code)
        return torch._dynamo.lookup_backend("aot_eager")(module, inputs)

    torch._dynamo.reset()
    mine = torch.compile(
        lambda x: softmax(2 * x, invariant=invariant) + 1, fullgraph=True, dynamic=True,
        backend=watching,
    )  # fmt: skip
    made: list[int] = []
    for shape in ((4, 6), (7, 9), (5, 1024)):
        x = torch.randn(shape)
        assert_close(mine(x), torch.softmax(2 * x, -1) + 1)
        made.append(len(graphs))
    assert made[0] == made[-1] > 0
    assert "roofline.softmax" in graphs[-1]
    assert set(served) == {"invariant" if invariant else "softmax"}


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_operators_keep_pytorchs_rules(served: list[str], dtype: torch.dtype):
    for x in layouts(dtype):
        dim = x.dim() // 2 if x.dim() else 0
        for to, wanted in ((None, False), (torch.float32, True)):
            leaf = x.detach().requires_grad_(wanted)
            opcheck(ops.softmax, (leaf, dim, to, wanted))
        y = torch.softmax(x, dim)
        given = (torch.randn_like(y).requires_grad_(), y.requires_grad_(), dim, torch.float32)
        opcheck(ops.softmax_backward, given)


def test_a_fake_result_lies_as_the_real_one(served: list[str]):
    for x in layouts(torch.float16):
        for dim in range(max(1, x.dim())):
            for to in (None, torch.float32):
                real = ops.softmax(x, dim, to, False)
                dx = ops.softmax_backward(real, real, dim, torch.float16)
                with FakeTensorMode() as mode:
                    fake = ops.softmax(mode.from_tensor(x), dim, to, False)
                    fake_dx = ops.softmax_backward(fake, fake, dim, torch.float16)
                for a, b in ((real, fake), (dx, fake_dx)):
                    assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
