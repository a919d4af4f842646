"""Who has to see a call: plain memory that nobody watches goes past PyTorch's dispatcher."""

import torch
from torch import Tensor
from torch._C import (
    DispatchKey,
    DispatchKeySet,
    _dispatch_keys,
    _dispatch_tls_is_dispatch_key_included,
    _is_tracing,
    _len_torch_dispatch_stack,
    _len_torch_function_stack,
)
from torch.autograd import forward_ad


def _keys(*names: str) -> int:
    keys = DispatchKeySet(getattr(DispatchKey, names[0]))
    for name in names[1:]:
        keys = keys | DispatchKeySet(getattr(DispatchKey, name))
    return keys.raw_repr()


# The dispatcher's keys of a tensor in CUDA memory, made outside inference mode and in it.
DENSE = {
    _keys("CUDA", "AutocastCUDA", "ADInplaceOrView", "AutogradCUDA"),
    _keys("CUDA", "AutocastCUDA"),
}


def dense(x: Tensor) -> bool:
    """Whether ``x`` is plain CUDA memory: not sparse, nested, negated, batched, fake, traced."""
    return isinstance(x, Tensor) and _dispatch_keys(x).raw_repr() in DENSE


def traced() -> bool:
    """Whether a mode of PyTorch sees operators, or a trace of them is made."""
    return (
        _len_torch_dispatch_stack() > 0
        or _is_tracing()
        # make_fx(pre_dispatch=True) has a stack of its own, and always a mode of functions beside.
        or (
            _len_torch_function_stack() > 0
            and _dispatch_tls_is_dispatch_key_included(DispatchKey.PreDispatch)
        )
    )


def observed(dtype: torch.dtype | None = None) -> bool:
    """Whether a mode of PyTorch has to see the call; autocast has not if all it would do is cast to
    ``dtype`` what is of it.
    """
    return (
        traced()
        or (torch.is_autocast_enabled() and torch.get_autocast_dtype("cuda") != dtype)
        or forward_ad._current_level >= 0
    )
