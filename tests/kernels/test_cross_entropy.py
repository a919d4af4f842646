"""kernels.cross_entropy means what torch's means, for rows of any tensor, however it is called.

Without a GPU torch stands in for the kernels, and refuses what they would refuse.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.library import opcheck
from torch.nn import functional
from torch.testing import assert_close

from kernels import cross_entropy, cross_entropy_api, unwatched
from kernels import cross_entropy_ops as ops
from kernels import ops as softmax_ops
from kernels.frontier import cross_entropy as launches
from kernels.frontier import frontier
from kernels.frontier.cross_entropy import Terms

torch.manual_seed(0)
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
NEAR = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float64: 1e-12}
PLAIN = (-100, 0.0, 0.0, False)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """CPU tensors take the way of CUDA tensors; what was launched."""
    seen: list[str] = []

    def losses(
        x: Tensor, target: Tensor, terms: Terms, loss: Tensor, lse: Tensor,
        grad: Tensor | None = None, weight: Tensor | None = None,
    ) -> None:  # fmt: skip
        assert frontier.rows_of(x)[:2] == frontier.rows_of(x if grad is None else grad)[:2]
        assert target.is_contiguous()
        assert weight is None or (weight.dtype == torch.float32 and weight.is_contiguous())
        seen.append("losses" if grad is None else "gradient")
        with torch.no_grad():
            x = x.detach()
            loss[...], lse[...] = ops.by_torch(x, target, terms)
            if grad is not None:
                slope = ops._slope(x, target, terms)
                factor = 1.0 if weight is None else weight[..., None]
                counts = (target != terms.ignore_index)[..., None]
                grad.copy_(torch.where(counts, slope * factor, 0.0))

    def targets(
        target: Tensor, cols: int, ignore_index: int, weight: Tensor, wrong: Tensor
    ) -> None:
        seen.append("targets")
        both = ops._torch_targets(target, cols, ignore_index)
        weight.copy_(both[0])
        wrong.copy_(both[1])

    def scale(x: Tensor, factor: Tensor) -> None:
        seen.append("scale")
        x.detach().mul_(factor)

    for name, stand_in in (("cross_entropy", losses), ("targets", targets), ("scale", scale)):
        monkeypatch.setattr(launches, name, stand_in)
    monkeypatch.setattr(cross_entropy_api, "_by_kernel", lambda x: x.dtype in frontier.NAMES)
    monkeypatch.setattr(softmax_ops, "served", lambda device: True)
    keys = torch._C._dispatch_keys(torch.zeros(1)).raw_repr()
    monkeypatch.setattr(unwatched, "DENSE", {keys})
    with torch.library._scoped_library("roofline", "IMPL") as library, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are overridden on purpose
        library.impl("cross_entropy", ops._cuda, "CPU", allow_override=True)
        library.impl("cross_entropy_grad", ops._cuda_grad, "CPU", allow_override=True)
        library.impl("cross_entropy_targets", ops._cuda_targets, "CPU", allow_override=True)
        yield seen


def cases(dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits that lie in memory in several ways, and classes, some of which do not count."""
    wide = torch.randn(4, 6, 10).to(dtype)
    for x in (wide, wide[:, :, 1:8], wide[:, 1:5], wide.mT, wide[0], wide[0, 0], wide[..., ::2]):
        target = torch.randint(x.shape[-1], x.shape[:-1])
        if target.dim():
            target[..., 0] = -100
        yield x, target
        yield x, target.int()


def expected(
    x: Tensor, target: Tensor, reduction: str, smoothing: float, z_loss: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, lse and gradient in float64."""
    leaf = x.detach().double().requires_grad_()
    flat, classes = leaf.reshape(-1, x.shape[-1]), target.reshape(-1).long()
    loss = functional.cross_entropy(flat, classes, label_smoothing=smoothing, reduction="none")
    lse, counts = torch.logsumexp(flat, -1), classes != -100
    loss = loss + z_loss * lse.square() * counts
    if reduction == "mean":
        loss = loss.sum() / counts.sum()
    else:
        loss = loss.sum() if reduction == "sum" else loss.view(target.shape)
    (grad,) = torch.autograd.grad(loss.sum(), leaf)
    return loss.detach(), lse.detach().view(target.shape), grad


def check(x: Tensor, target: Tensor, reduction: str, smoothing: float, z_loss: float, **kw: Any):
    """The public function against float64, gradients times 3."""
    leaf = x.detach().requires_grad_()
    given = leaf * 1 if kw.get("inplace") else leaf
    loss, lse = cross_entropy(
        given, target, reduction=reduction, label_smoothing=smoothing, z_loss=z_loss,
        return_lse=True, **kw,
    )  # fmt: skip
    right = expected(x, target, reduction, smoothing, z_loss)
    assert loss.dtype == lse.dtype == (x.dtype if x.dtype == torch.float64 else torch.float32)
    assert not lse.requires_grad
    near = 1e-5 if x.dtype != torch.float64 else 1e-12
    assert_close(loss.detach().double(), right[0], atol=near, rtol=near)
    assert_close(lse.double(), right[1], atol=near, rtol=near)
    (grad,) = torch.autograd.grad(3 * loss.sum(), leaf)
    assert grad.dtype == x.dtype
    near = NEAR[x.dtype]
    assert_close(grad.double(), 3 * right[2], atol=near, rtol=near)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
@pytest.mark.parametrize("way", ["kernels", "torch"])
def test_losses_and_gradients_are_torchs(
    way: str, dtype: torch.dtype, request: pytest.FixtureRequest
):
    served = request.getfixturevalue("served") if way == "kernels" else []
    for (x, target), reduction in product(cases(dtype), cross_entropy_api.REDUCTIONS):
        for smoothing, z_loss in ((0.0, 0.0), (0.2, 0.0), (0.1, 1e-2)):
            check(x, target, reduction, smoothing, z_loss)
    if way == "kernels" and dtype != torch.float64:
        assert {"losses", "gradient", "targets"} <= set(served)
        # A scale of gradients is known before them in the backward pass, where float16's are made.
        assert ("scale" in served) == (dtype != torch.float16)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gradient_may_take_the_place_of_its_logits(served: list[str], dtype: torch.dtype):
    for x, target in cases(dtype):
        if frontier.as_rows(x.shape, x.stride()) is None:
            continue
        for reduction in ("mean", "sum"):
            check(x, target, reduction, 0.1, 0.0, inplace=True)
    assert set(served) == {"targets", "gradient", "scale"}
    leaf, target = torch.randn(3, 5, requires_grad=True), torch.tensor([0, 1, 2])
    logits = leaf * 1
    loss: Any = cross_entropy(logits, target, inplace=True)
    assert_close(logits.detach(), expected(leaf, target, "mean", 0.0, 0.0)[2].float())
    logits.detach().zero_()
    with pytest.raises(RuntimeError, match="modified before the backward pass"):
        loss.backward()
    saved = leaf.exp()
    loss = cross_entropy(saved, target, inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with torch.no_grad():  # nothing is written where no gradient is wanted
        kept = leaf.clone()
        cross_entropy(kept, target, inplace=True)
        assert torch.equal(kept, leaf)


def test_how_often_a_gradient_can_be_had(served: list[str]):
    x, target = torch.randn(3, 5, requires_grad=True), torch.tensor([0, 1, 2])
    loss: Any = cross_entropy(x, target)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="second backward pass"):
        loss.backward()
    rows: Any = cross_entropy(x, target, reduction="none")
    first, second = (torch.autograd.grad(rows.sum(), x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_an_early_gradient_has_none_of_its_own_and_may_not_be_wanted(served: list[str]):
    class Ends(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            return None

    x, target = torch.randn(3, 5, requires_grad=True), torch.tensor([0, 1, 2])
    for one in (torch.ones((), requires_grad=True), None):
        loss: Any = cross_entropy(x, target)
        (dx,) = torch.autograd.grad(loss, x, one, create_graph=True)
        assert_close(dx.detach(), expected(x, target, "mean", 0.0, 0.0)[2].float())
        with pytest.raises(RuntimeError, match="once_differentiable"):
            (x.sum() + dx.square().sum()).backward()
    x.grad = None
    served.clear()
    ended: Any = Ends.apply(cross_entropy(x, target))
    (ended + x.sum()).backward()
    assert torch.equal(x.grad, torch.ones(3, 5))  # pyright: ignore
    assert "scale" not in served


def test_rows_of_which_none_counts(served: list[str]):
    x, target = torch.randn(3, 5, requires_grad=True), torch.full((3,), -100)
    loss: Any = cross_entropy(x, target)
    assert loss.isnan()
    loss.backward()
    assert x.grad is not None
    assert not x.grad.any()
    empty: Any = cross_entropy(torch.zeros(0, 5), target[:0])
    assert empty.isnan()
    assert cross_entropy(torch.zeros(0, 5), target[:0], reduction="none").shape == (0,)  # pyright: ignore[reportAttributeAccessIssue]


def test_a_target_that_is_no_class_is_told(served: list[str]):
    x, target = torch.randn(4, 5), torch.tensor([0, -100, 7, 5])
    with pytest.raises(IndexError, match=r"from 0 to 4.* got 7 in row 2"):
        cross_entropy(x, target, check=True)
    assert served == ["targets"]  # before anything is written
    cross_entropy(x, target.clamp(max=4), check=True)


def test_on_the_cpu_it_is_always_told():
    with pytest.raises(IndexError, match=r"from 0 to 4.* got 5 in row 1"):
        cross_entropy(torch.randn(2, 5), torch.tensor([0, 5]))


X, T = torch.randn(3, 5), torch.tensor([0, 1, 2])
WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no tensor": (lambda: cross_entropy([1.0], T), TypeError, "got list"),  # pyright: ignore
    "integers": (lambda: cross_entropy(X.long(), T), TypeError, "got torch.int64: pass input"),
    "probabilities": (lambda: cross_entropy(X, X), TypeError, "got torch.float32: for prob"),
    "shape": (lambda: cross_entropy(X, T[:2]), ValueError, r"got \(3, 5\) and \(2,\)"),
    "no class": (lambda: cross_entropy(X[:, :0], T), ValueError, r"got \(3, 0\)"),
    "device": (lambda: cross_entropy(X, T.to("meta")), ValueError, "cpu and meta"),
    "reduction": (lambda: cross_entropy(X, T, reduction="max"), ValueError, "got 'max'"),
    "smoothing": (lambda: cross_entropy(X, T, label_smoothing=2), ValueError, "got 2"),
    "in place": (
        lambda: cross_entropy(X, T, reduction="none", inplace=True), ValueError, "got 'none'"
    ),
    "leaf": (
        lambda: cross_entropy(X.clone().requires_grad_(), T, inplace=True), RuntimeError, "a leaf"
    ),
    "rows": (
        lambda: cross_entropy((X.T.contiguous().requires_grad_() * 1).T, T, inplace=True),
        ValueError, "even distances",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_gets_a_sentence(case: str):
    call, error, sentence = WRONG[case]
    with pytest.raises(error, match=sentence):
        call()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("z_loss", [0.0, 1e-2])
def test_gradients_of_gradients_are_right(smoothing: float, z_loss: float):
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([4, -100, 0])
    for reduction in cross_entropy_api.REDUCTIONS:
        call = partial(
            cross_entropy, target=target, reduction=reduction, label_smoothing=smoothing,
            z_loss=z_loss,
        )  # fmt: skip
        assert torch.autograd.gradcheck(call, x)
        assert torch.autograd.gradgradcheck(call, x)
    terms, weight = (-100, smoothing, z_loss, True), torch.rand(3).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: ops.cross_entropy(x, target, *terms)[0], x)
    assert torch.autograd.gradgradcheck(lambda x: ops.cross_entropy(x, target, *terms)[0], x)
    for given in (weight, weight.detach()[0].requires_grad_()):
        call = lambda x, w: ops.cross_entropy_grad(x, target, w, *terms)[::2]  # noqa: E731
        assert torch.autograd.gradcheck(call, (x, given))


def test_the_operators_keep_pytorchs_rules(served: list[str]):
    for shape, dtype, index in (
        ((6, 2, 4), torch.bfloat16, torch.int32), ((10,), torch.float32, torch.int64),
    ):  # fmt: skip
        leaf = torch.randn(shape).to(dtype).transpose(0, -1).requires_grad_()
        target = torch.randint(leaf.shape[-1], leaf.shape[:-1]).to(index)
        opcheck(ops.cross_entropy, (leaf, target, -100, 0.1, 1e-2, True))
        for given in (None, torch.rand(target.shape)):
            opcheck(ops.cross_entropy_grad, (leaf, target, given, *PLAIN))
        opcheck(ops.cross_entropy_targets, (target, leaf.shape[-1], -100))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_it_compiles_as_one_graph(served: list[str], backend: str):
    torch._dynamo.reset()
    x, target = torch.randn(4, 6, requires_grad=True), torch.tensor([0, 5, -100, 2])
    for reduction in cross_entropy_api.REDUCTIONS:
        call = partial(cross_entropy, reduction=reduction, z_loss=1e-2, return_lse=True)
        mine = torch.compile(
            lambda x, call=call: call(2 * x, target), fullgraph=True, backend=backend
        )
        loss, lse = mine(x)
        right = expected(2 * x, target, reduction, 0.0, 1e-2)
        assert_close(loss, right[0].float())
        assert_close(lse, right[1].float())
        (grad,) = torch.autograd.grad(loss.sum(), x)
        assert_close(grad, 2 * right[2].float())
    assert set(served) == {"targets", "losses", "gradient"}


def test_func_and_autocast_are_torchs(served: list[str]):
    x, target = torch.randn(3, 5), torch.tensor([0, 1, 2])
    mine: Any = torch.func.grad(lambda x: cross_entropy(x, target))
    theirs: Any = torch.func.grad(lambda x: functional.cross_entropy(x, target))
    assert_close(mine(x), theirs(x))
    each = torch.vmap(lambda x, t: cross_entropy(x, t))(x, target)
    assert_close(each, functional.cross_entropy(x, target, reduction="none"))
    for transform in (torch.func.grad, torch.func.hessian, torch.func.jacfwd):
        torch._dynamo.reset()
        compiled = torch.compile(
            transform(lambda x: cross_entropy(x, target)), fullgraph=True, backend="aot_eager"
        )
        assert_close(compiled(x), transform(lambda x: functional.cross_entropy(x, target))(x))
    with torch.autocast("cpu", torch.bfloat16):
        loss: Any = cross_entropy(x.bfloat16().requires_grad_(), target)
    assert loss.dtype == torch.float32


def test_without_a_gpu_torch_computes_and_says_so_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    cross_entropy_api._warn_once.cache_clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            cross_entropy(X, T)
    assert [str(w.message) for w in said] == [
        "cross_entropy found no CUDA GPU, so torch computes it"
    ]
    assert said[0].filename == __file__


def test_classes_that_may_be_the_second_dimension_or_the_last_are_told_of_once():
    logits, target = torch.randn(2, 5, 5), torch.randint(5, (2, 5))
    cross_entropy_api._warn_of_order.cache_clear()
    with pytest.warns(UserWarning, match=r"last dimension .*fits both.*movedim\(1, -1\)"):
        loss = cross_entropy(logits, target)
    assert_close(loss, functional.cross_entropy(logits.flatten(0, 1), target.flatten()))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert_close(cross_entropy(logits, target), loss)
        cross_entropy(torch.randn(2, 5, 7), target)


def test_a_trace_before_the_dispatcher_looks_at_no_target():
    x, target = torch.randn(6, 9), torch.randint(9, (6,))
    for before in (False, True):
        graph = make_fx(lambda a, b: cross_entropy(a, b), pre_dispatch=before)(x, target)
        other = torch.randn(6, 9), torch.randint(9, (6,))
        assert_close(graph(*other), functional.cross_entropy(*other))
