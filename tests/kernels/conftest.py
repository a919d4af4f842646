"""torch in the place of the kernels, where there is no GPU."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels import api, eager, ops, unwatched
from kernels.frontier import backward, columns, frontier


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """CPU tensors take the way of CUDA tensors; what was launched, past the dispatcher or not."""
    seen: list[str] = []

    def forward(x: Tensor, out: Tensor, invariant: bool = False) -> Tensor:
        rows = frontier.rows_of(out)
        assert frontier.rows_of(x)[:2] == rows[:2]
        assert rows.rows <= 1 or rows.stride >= rows.cols
        one = x.data_ptr() == out.data_ptr() and x.stride() == out.stride()
        assert one or x.untyped_storage().data_ptr() != out.untyped_storage().data_ptr()
        seen.append("invariant" if invariant else "softmax")
        with torch._C._AutoDispatchBelowADInplaceOrView():  # a kernel carries no tangent
            return out.copy_(torch.softmax(x, -1))

    def of_columns(x: Tensor, dim: int, out: Tensor, log: bool = False) -> Tensor:
        assert columns.takes(x, dim, out)
        one = x.data_ptr() == out.data_ptr() and x.stride() == out.stride()
        assert one or x.untyped_storage().data_ptr() != out.untyped_storage().data_ptr()
        seen.append("columns")
        with torch._C._AutoDispatchBelowADInplaceOrView():
            return out.copy_(torch.softmax(x, dim))

    def gradient(grad: Tensor, y: Tensor, out: Tensor, of: None = None) -> Tensor:
        assert all(frontier.rows_of(t) for t in (grad, y, out))
        assert grad.dtype == y.dtype == out.dtype
        seen.append("backward")
        return out.copy_(y * (grad - (grad * y).sum(-1, keepdim=True)))

    def launch(device: int, key: Any, prepare: Any, source: int, to: int) -> None:
        if prepare.func is columns.prepare:
            x, dim, out, log = prepare.args
            assert not log
            of_columns(x, dim, out)
        else:
            x, out, invariant, *rest = prepare.args
            assert rest in ([], [None, None])
            seen.append("direct")
            forward(x, out, invariant)
        assert (source, to) == (x.data_ptr(), out.data_ptr())

    monkeypatch.setattr(frontier, "softmax", forward)
    monkeypatch.setattr(columns, "softmax", of_columns)
    monkeypatch.setattr(backward, "softmax_backward", gradient)
    for module in (api, eager):
        monkeypatch.setattr(module, "launch", launch)
        monkeypatch.setattr(module, "known", lambda device, key: None)
    monkeypatch.setattr(api, "_by_kernel", lambda x, kind: kind in frontier.NAMES)
    monkeypatch.setattr(unwatched, "DENSE", {torch._C._dispatch_keys(torch.zeros(1)).raw_repr()})
    monkeypatch.setattr(ops, "served", lambda device: True)
    with torch.library._scoped_library("roofline", "IMPL") as library, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are overridden on purpose
        library.impl("softmax", ops._cuda, "CPU", allow_override=True)
        library.impl("softmax_backward", ops._cuda_backward, "CPU", allow_override=True)
        yield seen
