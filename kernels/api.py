"""``softmax``: torch.softmax by the frontier's kernels."""

from __future__ import annotations

import warnings
from functools import cache, partial

import torch
from torch import Tensor
from torch._C import (
    DispatchKey,
    DispatchKeySet,
    _dispatch_keys,
    _is_tracing,
    _len_torch_dispatch_stack,
)
from torch._C._functorch import TransformType, get_interpreter_stack
from torch.autograd import forward_ad

from kernels import ops
from kernels.frontier import frontier
from kernels.frontier.rows import as_rows
from kernels.prepared import known, launch


def softmax(
    x: Tensor, dim: int = -1, *, out: Tensor | None = None, dtype: torch.dtype | None = None,
    invariant: bool = False,
) -> Tensor:  # fmt: skip
    """The softmax of ``x``, of any shape and strides, along ``dim``, as torch.softmax gives it.

    On CUDA float16, bfloat16 and float32 go through this project's kernels, everything else
    through torch.softmax (with one warning a process where there is no CUDA GPU). It has
    gradients, and works under torch.compile, torch.vmap, autocast and in CUDA graphs.

    out        a tensor of x's shape and device and the result's dtype, with any strides, to be
               written and returned; may be ``x``
    dtype      what ``x`` is cast to first
    invariant  a row's bits then depend neither on the number of rows nor on how a row is split;
               of no effect where torch.softmax computes

    Raises TypeError for what is no tensor or not floating-point, IndexError for a ``dim`` that
    ``x`` has not, ValueError for another ``out``, RuntimeError for ``out`` where gradients are
    wanted.
    """
    # A plain call goes past the dispatcher, which from Python takes longer than all else before
    # the launch. What is in the key is looked at once.
    if (
        not torch.compiler.is_compiling()
        and out is None
        and _dense(x)
        and x.is_contiguous()
        and not (x.requires_grad and torch.is_grad_enabled())
        and not _observed()
    ):
        source, device = x.data_ptr(), x.get_device()
        lies = source % frontier.LINE_BYTES
        key = (x.dtype, x.shape, lies, device, dim, dtype, invariant)
        if ready := known(device, key):
            y = torch.empty_like(x)  # of CUDA memory, so on a boundary of 256 bytes or more
            ready(torch._C._cuda_getCurrentRawStream(device), source, y.data_ptr())
            return y
        if _plain(x, dim, dtype):
            y = torch.empty_like(x)
            launch(device, key, partial(frontier.prepare, x, y, invariant), source, y.data_ptr())
            return y
    return _any(x, dim, out, dtype, invariant)


def _any(
    x: Tensor, dim: int, out: Tensor | None, dtype: torch.dtype | None, invariant: bool
) -> Tensor:
    kind, compiling = _checked(x, dim, out, dtype), torch.compiler.is_compiling()
    if not _by_kernel(x, kind) or (not compiling and _differentiated_by_func()):
        if not compiling and not torch.cuda.is_available():
            _warn_once()
        y = torch.softmax(x, dim, dtype=dtype)
    elif out is not None and not compiling and _direct(x, dim, out):
        torch.autograd.graph.increment_version(out)  # whoever saved it for a gradient is told
        return ops.into(x, dim, out, invariant)
    else:
        y = ops.softmax(x, dim, dtype, invariant)
    return y if out is None else out.copy_(y)


def _by_kernel(x: Tensor, kind: torch.dtype) -> bool:
    return x.is_cuda and kind in frontier.NAMES


def _differentiated_by_func() -> bool:
    """Whether a forward-mode derivative or torch.func's gradients are wanted.

    PyTorch has no registration of these for an operator.
    """
    levels = get_interpreter_stack() or ()
    return forward_ad._current_level >= 0 or any(
        level.key() != TransformType.Vmap for level in levels
    )


def _keys(*names: str) -> int:
    keys = DispatchKeySet(getattr(DispatchKey, names[0]))
    for name in names[1:]:
        keys = keys | DispatchKeySet(getattr(DispatchKey, name))
    return keys.raw_repr()


# The dispatcher's keys of a tensor in CUDA memory, made outside inference mode and in it.
_DENSE = {
    _keys("CUDA", "AutocastCUDA", "ADInplaceOrView", "AutogradCUDA"),
    _keys("CUDA", "AutocastCUDA"),
}


def _dense(x: Tensor) -> bool:
    """Whether ``x`` is plain CUDA memory: not sparse, nested, negated, batched, fake, traced."""
    return isinstance(x, Tensor) and _dispatch_keys(x).raw_repr() in _DENSE


def _observed() -> bool:
    """Whether a mode of PyTorch has to see the call."""
    return (
        _len_torch_dispatch_stack() > 0
        or _is_tracing()
        or torch.is_autocast_enabled()
        or forward_ad._current_level >= 0
    )


def _plain(x: Tensor, dim: int, dtype: torch.dtype | None) -> bool:
    """Whether the kernels take ``x``, which is contiguous, and a contiguous output."""
    return (
        dtype in (None, x.dtype)
        and (dim == -1 or dim == x.dim() - 1)
        and ops.serves(x, -1, x.dtype)
    )


def _direct(x: Tensor, dim: int, out: Tensor) -> bool:
    """Whether a kernel may write to ``out`` itself: rows apart from each other and from ``x``."""
    if _observed() or not (_dense(x) and _dense(out)) or x.dtype != out.dtype:
        return False
    moved = out.movedim(dim, -1) if out.dim() else out
    rows = as_rows(moved.shape, moved.stride())
    if (
        rows is None
        or (rows.rows > 1 and rows.stride < rows.cols)
        or not ops.serves(x, dim, x.dtype)
    ):
        return False
    same = x.data_ptr() == out.data_ptr() and x.stride() == out.stride()
    return same or x.untyped_storage().data_ptr() != out.untyped_storage().data_ptr()


def _checked(x: Tensor, dim: int, out: Tensor | None, dtype: torch.dtype | None) -> torch.dtype:
    """The dtype of the result; raises an error that says what is wrong."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"softmax expects a torch.Tensor; got {type(x).__name__}: pass torch.as_tensor(x)"
        )
    if not isinstance(dim, int) or not isinstance(dtype, torch.dtype | None):
        raise TypeError(
            f"softmax expects an int for dim and a torch.dtype or None for dtype; got {dim!r} and "
            f"{dtype!r}"
        )
    dims = max(1, x.dim())
    if not -dims <= dim < dims:
        raise IndexError(
            f"softmax expects a dim from {-dims} to {dims - 1} for a tensor of shape "
            f"{tuple(x.shape)}; got {dim}"
        )
    kind = x.dtype if dtype is None else dtype
    if not kind.is_floating_point:
        raise TypeError(
            f"softmax gives floating-point numbers; got {kind}: pass dtype=torch.float32"
        )
    if out is None:
        return kind
    if out.shape != x.shape or out.dtype != kind or out.device != x.device:
        raise ValueError(
            f"softmax expects out of shape {tuple(x.shape)}, {kind}, on {x.device}; got "
            f"{tuple(out.shape)}, {out.dtype}, on {out.device}"
        )
    if torch.is_grad_enabled() and (x.requires_grad or out.requires_grad):
        raise RuntimeError(
            "softmax has no gradient through out=, and an argument requires one: leave out= away, "
            "or call it under torch.no_grad()"
        )
    return kind


@cache
def _warn_once() -> None:
    warnings.warn("softmax found no CUDA GPU, so torch.softmax computes it", stacklevel=4)
