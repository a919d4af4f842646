"""Who transforms a call: forward-mode derivatives and torch.func, which operators lack rules for.

Under torch.compile they are those of the trace, and a trace serves no other ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C._functorch import TransformType, get_interpreter_stack
from torch.autograd import forward_ad


def applied(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """``function.apply`` for tensors that no transform of torch.func sees, or has seen.

    Function's own looks for such ones at every call, which takes longer than a launch does.
    """
    return super(torch.autograd.Function, function).apply  # pyright: ignore[reportAttributeAccessIssue]


def differentiated() -> bool:
    """Whether a forward-mode derivative or torch.func's gradients are wanted."""
    return forward_ad._current_level >= 0 or _derivatives() > 0


def differentiated_further() -> bool:
    """Whether forward-mode derivatives are wanted, or torch.func's gradients of gradients."""
    return forward_ad._current_level >= 0 or _derivatives() > 1


def transformed() -> bool:
    """The same, or torch.vmap."""
    return forward_ad._current_level >= 0 or _levels() > 0


def batched() -> bool:
    """Whether torch.vmap sees the call."""
    return _levels() > _derivatives()


# What is traced guards the levels by itself, but cannot look at them: it is told.


@torch.compiler.assume_constant_result
def _levels() -> int:
    return len(get_interpreter_stack() or ())


@torch.compiler.assume_constant_result
def _derivatives() -> int:
    levels = get_interpreter_stack() or ()
    return sum(level.key() != TransformType.Vmap for level in levels)
