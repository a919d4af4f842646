"""Who has to see a call: modes and traces, which a launch past the dispatcher would not reach."""

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

from kernels.unwatched import observed, traced


@pytest.mark.parametrize("before", [False, True])
def test_a_trace_is_seen(before: bool):
    seen: list[bool] = []

    def function(x: Tensor) -> Tensor:
        seen.extend((traced(), observed()))
        return x + 1

    make_fx(function, pre_dispatch=before)(torch.zeros(3))
    torch.jit.trace(function, torch.zeros(3), check_trace=False)  # pyright: ignore
    with FlopCounterMode(display=False):
        function(torch.zeros(3))
    assert seen == [True] * 6
    seen.clear()
    function(torch.zeros(3))
    with torch.device("cpu"):  # a mode of functions alone
        function(torch.zeros(3))
    assert seen == [False] * 4


def test_autocast_is_observed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda: True)  # CUDA's, as in autocast
    assert observed()
    assert not traced()
    monkeypatch.setattr(torch, "get_autocast_dtype", {"cuda": torch.bfloat16}.get)
    assert not observed(torch.bfloat16)
    assert observed(torch.float16)
