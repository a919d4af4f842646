"""``softmax``: torch.softmax by the frontier's kernels."""

from __future__ import annotations

import warnings
from functools import cache

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack
from torch.autograd import forward_ad

from kernels import ops
from kernels.frontier import frontier
from kernels.frontier.rows import as_rows


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
    invariant  a row's bits then depend neither on the number of rows nor on how a row is split

    Raises TypeError for what is no tensor or not floating-point, IndexError for a ``dim`` that
    ``x`` has not, ValueError for another ``out``, RuntimeError for ``out`` where gradients are
    wanted.
    """
    if (
        not torch.compiler.is_compiling()
        and out is None
        and dtype is None
        and _plain(x)
        and (dim == -1 or dim == x.dim() - 1)
        and x.is_contiguous()
        and x.dtype in frontier.NAMES
        and x.numel() <= ops.MOST_COLS
        and not (x.requires_grad and torch.is_grad_enabled())
        and ops.served(x.get_device())
    ):
        return frontier.softmax(x, torch.empty_like(x), invariant)
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
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, names[0]))
    for name in names[1:]:
        keys = keys | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
    return keys.raw_repr()


# What the dispatcher looks at: of a tensor, outside inference mode and in it; of the thread.
_DENSE = {
    _keys("CUDA", "AutocastCUDA", "ADInplaceOrView", "AutogradCUDA"),
    _keys("CUDA", "AutocastCUDA"),
}
_NO_MODE = {_keys("BackendSelect", "ADInplaceOrView"), _keys("BackendSelect")}


def _plain(x: Tensor) -> bool:
    """Whether a call may go past the dispatcher, which takes longer than all else before a launch.

    It may for a tensor of plain CUDA memory (not sparse, nested, negated, batched, fake or of a
    subclass) while no autocast, forward-mode derivative, trace or other mode looks on.
    """
    return (
        isinstance(x, Tensor)
        and torch._C._dispatch_keys(x).raw_repr() in _DENSE
        and torch._C._dispatch_tls_local_include_set().raw_repr() in _NO_MODE
        and not torch.is_autocast_enabled()
        and forward_ad._current_level < 0
    )


def _direct(x: Tensor, dim: int, out: Tensor) -> bool:
    """Whether a kernel may write to ``out`` itself: rows that no memory shares."""
    if not (_plain(x) and _plain(out) and x.dtype == out.dtype and ops.serves(x, dim, x.dtype)):
        return False
    moved = out.movedim(dim, -1) if out.dim() else out
    rows = as_rows(moved.shape, moved.stride())
    if rows is None or (rows.rows > 1 and rows.stride < rows.cols):
        return False
    if x.untyped_storage().data_ptr() != out.untyped_storage().data_ptr():
        return True
    return x.data_ptr() == out.data_ptr() and x.stride() == out.stride()


def _checked(x: Tensor, dim: int, out: Tensor | None, dtype: torch.dtype | None) -> torch.dtype:
    """The dtype of the result; raises an error that says what is wrong."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"softmax expects a torch.Tensor; got {type(x).__name__}: pass torch.as_tensor(x)"
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
