"""The public softmax of any tensor, along any dimension: drawn by hypothesis."""

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from kernels import log_softmax, softmax

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("any_tensor")]

SIZES = (0, 1, 2, 3, 7, 8, 33, 64, 129, 1000, 4097)
ELEMENTS = 2**18
EXAMPLES = settings(
    max_examples=200, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
TOLERANCES = {  # relative to the float64 result, and absolute
    torch.float32: (2e-5, 2e-6), torch.float16: (2e-3, 2e-3), torch.bfloat16: (1.6e-2, 1.6e-2),
    torch.float64: (1e-12, 1e-12),
}  # fmt: skip


@dataclass(frozen=True)
class View:
    """A tensor of ``sizes``, its dimensions in memory in ``order``, every ``step``-th column."""

    sizes: tuple[int, ...]
    order: tuple[int, ...]
    step: int
    offset: int

    def of(self, dtype: torch.dtype, device: str) -> Tensor:
        """Such a view, of zeros."""
        sizes = [self.sizes[i] for i in self.order]
        if sizes:
            sizes[-1] *= self.step
        memory = torch.zeros(math.prod(sizes) + self.offset, dtype=dtype, device=device)
        whole = memory[self.offset :].view(sizes)
        some = whole[..., :: self.step] if sizes else whole
        return some.permute([self.order.index(i) for i in range(len(sizes))])


@dataclass(frozen=True)
class AnyTensor:
    """A call of ``softmax``, or of ``log_softmax``; ``out``: where its result is to lie."""

    view: View
    out: View | None
    dtype: torch.dtype
    cast: torch.dtype | None
    dim: int
    log: bool
    seed: int


@st.composite
def calls(draw: st.DrawFn) -> AnyTensor:
    sizes: list[int] = []
    for _ in range(draw(st.integers(0, 4))):
        room = ELEMENTS // max(1, math.prod(sizes))
        sizes.append(draw(st.sampled_from([size for size in SIZES if size <= room])))
    dims, order = len(sizes), st.permutations(range(len(sizes))).map(tuple)
    views = st.builds(View, st.just(tuple(sizes)), order, st.integers(1, 3), st.integers(0, 9))
    dtypes = st.sampled_from(list(TOLERANCES))
    return AnyTensor(
        draw(views), draw(st.none() | views), draw(dtypes), draw(st.none() | dtypes),
        draw(st.integers(-max(1, dims), max(1, dims) - 1)), draw(st.booleans()),
        draw(st.integers(0, 99)),
    )  # fmt: skip


def fault(one: AnyTensor, device: str, softmax=softmax, log_softmax=log_softmax) -> str:
    """What is wrong with the result of ``one``; '' if nothing is."""
    torch.manual_seed(one.seed)
    kind = one.cast or one.dtype
    x = one.view.of(one.dtype, device)
    x.copy_(3 * torch.randn(x.shape))
    before, out = x.clone(), one.out and one.out.of(kind, device)
    y = (log_softmax if one.log else softmax)(x, one.dim, dtype=one.cast, out=out)
    wide = before.to(kind).double()
    exact = (torch.log_softmax if one.log else torch.softmax)(wide, one.dim)
    relative, absolute = TOLERANCES[kind]
    if y.shape != x.shape or y.dtype != kind:
        return f"a tensor of {tuple(y.shape)} {y.dtype}"
    if out is not None and y is not out:
        return "another tensor than out"
    if not torch.equal(before, x):
        return "it changed its input"
    if not torch.allclose(y.double(), exact, relative, absolute, equal_nan=True):
        return f"off by {float((y.double() - exact).abs().max()):.3g}"
    return ""


@EXAMPLES
@given(one=calls())
def test_any_tensor_is_torchs_along_any_dimension(one: AnyTensor):
    assert fault(one, "cuda") == ""
