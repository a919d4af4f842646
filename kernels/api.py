"""``softmax`` and ``log_softmax``: torch's by the frontier's kernels, with factors and masks."""

from __future__ import annotations

import warnings
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import get_interpreter_stack
from torch.compiler import is_compiling

from kernels import eager, operators, ops
from kernels.arguments import (
    check_finite,
    check_flags,
    check_floating,
    check_int,
    check_tensor,
    either,
    told,
)
from kernels.eager import Asked, Call
from kernels.frontier import frontier
from kernels.prepared import known, launch
from kernels.transforms import differentiated
from kernels.unwatched import dense, observed


def softmax(
    x: Tensor | None = None, dim: int = -1, *, out: Tensor | None = None,
    dtype: torch.dtype | None = None, invariant: bool = False, scale: float = 1.0,
    mask: Tensor | None = None, is_causal: bool = False, factor: float = 1.0,
    input: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The softmax of ``x``, of any shape and strides, along ``dim``, as torch.softmax gives it.

    With scale, mask, is_causal and factor it is factor * softmax(scale * x + mask), in one kernel.

    On CUDA float16, bfloat16 and float32 go through this project's kernels, everything else
    through torch.softmax (with one warning a process where there is no CUDA GPU), nested tensors
    of layout torch.jagged too. It has gradients and tangents, and works under torch.compile,
    torch.vmap, autocast and in CUDA graphs.

    out        a tensor of x's shape and device and the result's dtype, with any strides by which
               no two results share a place (where one is 0 it is refused; where they overlap
               otherwise results are wrong), to be written and returned; may be ``x``
    dtype      what ``x`` is cast to first
    invariant  a row's bits then depend neither on the number of rows nor on how a row is split;
               of no effect where torch.softmax computes
    scale      a factor of ``x``, one over the temperature; torch computes where it is not above 0
    mask       broadcast to ``x``: boolean, true where an element takes part; or of the result's
               dtype, added to scale * x. A row of which nothing takes part is NaN
    is_causal  row i of every matrix (..., rows, columns) sees the columns up to i
    factor     what results are multiplied by
    input      torch's name for ``x``

    Raises TypeError for what is no tensor of strides, for other dtypes than float16, bfloat16,
    float32 and float64, for a mask of another dtype and for arguments of other types, IndexError
    for a ``dim`` that ``x`` has not, ValueError for another ``out``, a mask that is not broadcast,
    a causal mask beside another or along another dimension than the last, factors that are not
    finite, and ``invariant`` of more than 8,388,608 columns where a kernel computes, RuntimeError
    for ``out`` where gradients are wanted.

    Moves 2MN elements, which times their size are the bytes (kernels/frontier; 3MN for wider
    masked rows than a cluster holds, and along other dimensions for few strips or many rows), and
    a mask's own once for each row that has them. The gradient moves 3MN, and 5MN beyond 1,048,576
    columns (before Hopper 16,384); with a boolean mask 2MN and the mask more. Where torch computes,
    factors and masks are passes of their own; it computes derivatives in forward mode, of
    torch.func and of gradients.
    """
    if input is not None:
        x = either("softmax", x, input)
    # A plain call goes past the dispatcher, which from Python takes longer than all else before
    # the launch. What is in the key is looked at once.
    if (
        not is_compiling()
        and out is None
        and mask is None
        and isinstance(scale, float)
        and scale == 1.0
        and is_causal is False
        and isinstance(factor, float)
        and factor == 1.0
        and isinstance(x, Tensor)
        and not (x.requires_grad and torch.is_grad_enabled())
        and type(dim) is int  # True is 1 in a key, too
        and (dim == -1 or dim == x.dim() - 1)
        and type(invariant) is bool
        and (dtype is None or isinstance(dtype, torch.dtype))
        and dense(x)
        and x.is_contiguous()
        and not observed()
    ):
        source, device = x.data_ptr(), x.get_device()
        lies = source % frontier.LINE_BYTES
        key = (x.dtype, x.shape, lies, device, dim, dtype, invariant)
        if ready := known(device, key):
            y = torch.empty_like(x)  # of CUDA memory, so on a boundary of 256 bytes or more
            ready(torch._C._cuda_getCurrentRawStream(device), source, y.data_ptr())
            return y
        if _plain(x, dtype):
            y = torch.empty_like(x)
            launch(device, key, partial(frontier.prepare, x, y, invariant), source, y.data_ptr())
            return y
    return _call(x, out, mask, (False, dim, dtype, invariant, scale, is_causal, factor))


def log_softmax(
    x: Tensor | None = None, dim: int = -1, *, out: Tensor | None = None,
    dtype: torch.dtype | None = None, invariant: bool = False, scale: float = 1.0,
    mask: Tensor | None = None, is_causal: bool = False, factor: float = 1.0,
    input: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The logarithm of the softmax of ``x``, of any shape, as torch.log_softmax gives it.

    With factors and masks it is factor * log_softmax(scale * x + mask). Arguments are those of
    ``softmax``, and so are dtypes: float16, bfloat16 and float32 by kernels. Raises what it raises,
    and moves as many bytes.
    """
    x = either("log_softmax", x, input)
    return _call(x, out, mask, (True, dim, dtype, invariant, scale, is_causal, factor))


def _call(x: Any, out: Tensor | None, mask: Tensor | None, call: Call) -> Tensor:
    """What ``call`` asks of ``x``: by a launch that is known, by one that can be, or by PyTorch."""
    compiling = is_compiling()
    alone, derived = (False, False) if compiling else _unseen(x, out, mask)
    # What was called before needs no checks.
    if alone and (y := eager.again(x, out, mask, call)) is not None:
        return y
    if derived and (ready := eager.kept(x, x.data_ptr(), None, 0, mask, call)):
        return eager.differentiated(x, (mask, call, ready))
    asked = Asked(*call)
    log, dim, dtype, invariant, scale, is_causal, factor = asked
    kind = _checked(x, out, mask, asked)
    _check_mask(asked.name, x, dim, kind, mask, is_causal)
    _check_out(asked.name, x, kind, out, mask)
    if type(dim) is not int:  # NumPy's, as torch takes it
        dim = int(dim)
        call = (log, dim, *call[2:])
    if x.is_nested or not _by_kernel(x, kind) or differentiated():
        if not compiling and not torch.cuda.is_available():
            _warn_once()
        y = operators.composed(x, mask, dim, dtype, log, float(scale), float(factor), is_causal)
    elif alone and (y := eager.first(x, out, mask, call)) is not None:
        return y
    elif derived:
        return eager.differentiated(x, (mask, call, None))
    elif asked.plain and mask is None:
        y = ops.softmax(x, dim, dtype, invariant)
    else:
        y = operators.softmax_operator(
            x, mask, dim, dtype, log, float(scale), float(factor), is_causal, invariant
        )
    return y if out is None else out.copy_(y)


def _check_mask(
    name: str, x: Tensor, dim: int, kind: torch.dtype, mask: Tensor | None, is_causal: bool
) -> None:  # fmt: skip
    """Raises an error that says what is wrong with a mask."""
    if is_causal:
        if mask is not None:
            raise ValueError(
                f"{name} takes a mask or is_causal=True; got both: put one in the mask"
            )
        if x.dim() < 2 or dim not in (-1, x.dim() - 1):
            raise ValueError(
                f"{name} has causal rows along the last dimension of (..., rows, columns); got "
                f"shape {tuple(x.shape)} and dim {dim}: move that dimension to the end, or pass a "
                "mask"
            )
    if mask is None:
        return
    check_tensor(name, "mask", mask)
    if mask.dtype not in (torch.bool, kind):
        raise TypeError(
            f"{name} takes a mask of torch.bool, or of {kind} to be added; got {mask.dtype}: pass "
            f"mask.bool() or mask.to({kind})"
        )
    if mask.device != x.device:
        raise ValueError(
            f"{name} takes a mask on {x.device}, as x; got one on {mask.device}: pass "
            "mask.to(x.device)"
        )
    sizes = zip(reversed(mask.shape), reversed(x.shape), strict=False)
    if mask.dim() > x.dim() or any(m not in (1, n) for m, n in sizes):
        raise ValueError(
            f"{name} takes a mask that is broadcast to {tuple(x.shape)}; got {tuple(mask.shape)}: "
            "pass one whose sizes, from the last on, are x's or 1"
        )


def _by_kernel(x: Tensor, kind: torch.dtype) -> bool:
    return x.is_cuda and kind in frontier.NAMES


def _plain(x: Tensor, dtype: torch.dtype | None) -> bool:
    """Whether the kernels take rows of ``x``, which is contiguous, and a contiguous output."""
    return dtype in (None, x.dtype) and ops.serves(x, -1, x.dtype)


def _unseen(x: Tensor, out: Tensor | None, mask: Tensor | None) -> tuple[bool, bool]:
    """Whether nobody has to see the call of plain CUDA memory, or but for a gradient of ``x``."""
    if not dense(x) or observed():
        return False, False
    wanted = torch.is_grad_enabled()
    for other in () if out is mask is None else (out, mask):
        if other is not None and (not dense(other) or (wanted and other.requires_grad)):
            return False, False
    if wanted and x.requires_grad:
        return False, out is None and not get_interpreter_stack()
    return True, False


def _checked(x: Tensor, out: Tensor | None, mask: Tensor | None, asked: Asked) -> torch.dtype:
    """The dtype of the result; raises an error that says what is wrong."""
    name, dim, dtype = asked.name, asked.dim, asked.dtype
    check_tensor(name, "x", x, jagged=True)
    check_int(name, "dim", dim)
    if not isinstance(dtype, torch.dtype | None):
        raise TypeError(
            f"{name} expects a torch.dtype or None for dtype; got {told(dtype)}: pass one such as "
            "torch.float32"
        )
    dims = max(1, x.dim())
    if not -dims <= dim < dims:
        raise IndexError(
            f"{name} expects a dim from {-dims} to {dims - 1} for a tensor of shape "
            f"{tuple(x.shape)}; got {dim}: pass dim=-1 for the last"
        )
    check_flags(name, invariant=asked.invariant, is_causal=asked.is_causal)
    check_finite(name, scale=asked.scale, factor=asked.factor)
    kind = x.dtype if dtype is None else dtype
    check_floating(name, kind, "dtype=torch.float32")
    if x.is_nested and not (out is None and mask is None and not asked.is_causal):
        raise ValueError(
            f"{name} takes neither out nor masks with a nested tensor: pass "
            "x.to_padded_tensor(-math.inf)"
        )
    return kind


def _check_out(
    name: str, x: Tensor, kind: torch.dtype, out: Tensor | None, mask: Tensor | None
) -> None:  # fmt: skip
    """Raises an error that says what is wrong with an output."""
    if out is None:
        return
    check_tensor(name, "out", out)
    if out.shape != x.shape or out.dtype != kind or out.device != x.device:
        raise ValueError(
            f"{name} expects out of shape {tuple(x.shape)}, {kind}, on {x.device}; got "
            f"{tuple(out.shape)}, {out.dtype}, on {out.device}: pass torch.empty_like(x, dtype="
            f"{kind})"
        )
    lies = zip(out.shape, out.stride(), strict=True)
    if out.numel() > 0 and any(size > 1 and step == 0 for size, step in lies):
        raise ValueError(
            f"{name} expects out to have a place for each result; got strides {out.stride()} for "
            f"shape {tuple(out.shape)}, by which some share one: pass torch.empty_like(x)"
        )
    wanted = (x, out) if mask is None else (x, out, mask)
    if torch.is_grad_enabled() and any(t.requires_grad for t in wanted):
        raise RuntimeError(
            f"{name} has no gradient through out=, and an argument requires one: leave out= away, "
            "or call it under torch.no_grad()"
        )


@cache
def _warn_once() -> None:
    warnings.warn("softmax found no CUDA GPU, so torch.softmax computes it", stacklevel=4)
