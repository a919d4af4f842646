"""``attention``: scaled dot-product attention by this project's kernel, which keeps no scores.

It is the operator ``roofline::attention`` of PyTorch's dispatcher.  docs/attention.md says what the
kernel moves, and what limits it.
"""

from __future__ import annotations

import math
import sys
import warnings
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from kernels.arguments import FLOATS, check_finite, check_flags, check_number, check_tensor, told
from kernels.ops import served
from kernels.prepared import relaxed
from kernels.transforms import differentiated_further, transformed
from kernels.triton import triton_attention
from kernels.triton.triton_attention import (
    DIMS,
    DTYPES,
    FEW,
    LOG2E,
    MOST_LENGTH,
    MOST_PROGRAMS,
)

KINDS = tuple(getattr(torch, name) for name in DTYPES)
# The factor of the scores in base 2 is a float32 that is neither 0 nor infinite.
LEAST_SCALE, MOST_SCALE = 2.0**-126, 2.0**127
_BESIDE = "a mask or dropout is wanted, and the kernel has neither"
# Devices whose autocast this function follows; elsewhere scaled_dot_product_attention does.
AUTOCAST = ("cpu", "cuda")

torch.library.define(
    "roofline::attention",
    "(Tensor query, Tensor key, Tensor value, bool is_causal, float? scale) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
operator = torch.ops.roofline.attention.default


def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(query key^T * scale) value, as torch's scaled_dot_product_attention gives it.

    query      (B, H, S_q, D)
    key        (B, H_kv, S_k, D); H is a multiple of H_kv, and neighbouring heads of ``query``
               share one of ``key`` and ``value``
    value      (B, H_kv, S_k, D)
    attn_mask  broadcast to (B, H, S_q, S_k), bool or added to the scores, or one of
               torch.nn.attention.bias; torch computes with one
    dropout_p  the share of weights that are left out; torch computes where it is not 0
    is_causal  query i sees the keys 0 to i, whatever S_q and S_k are
    scale      1 / sqrt(D) where it is None
    enable_gqa whether torch lets heads share; here they do in any case

    Gives (B, H, S_q, D), with the strides of ``torch.empty_like(query)``: heads that were
    transposed out of (B, S, H, D) go back without a copy.

    Arguments are those of torch's function, by the same names and in the same order.  Without a B
    the tensors are one batch; torch's function computes those of other numbers of dimensions.

    On CUDA float16 and bfloat16 with D of 64 or 128 go through the kernel, which has no gradient.
    Everything else, and a call whose gradient is wanted, goes through torch's function;
    ``refusal`` says why, and so does one warning a process and reason.  Under autocast
    the three are cast as torch's function casts them.  It works under torch.compile and in CUDA
    graphs.
    Derivatives in forward mode, and torch.func's second ones, go by torch's composed way; second
    gradients of autograd want sdpa_kernel(SDPBackend.MATH) of torch.nn.attention around the call.

    Raises TypeError for arguments of other types and a mask that is neither bool, float32 nor of
    their dtype, RuntimeError for shapes, dtypes or devices of the three that do not belong
    together, as torch's function does, ValueError for a scale that is not finite, a share that is
    none, a mask beside ``is_causal`` or on another device, and, beside tensors of three or four
    dimensions, a mask that does not fit; beside others torch's function checks that.

    Moves query and output once, key and value once for each block of queries, mostly from the L2:
    at least 2 B (H S_q + H_kv S_k) D elements, which times their size are the bytes. No score is
    written.
    """
    _check_types(query, key, value, is_causal, scale, enable_gqa)
    _check_beside(attn_mask, dropout_p)
    scale = None if scale is None else float(scale)
    query, key, value = _autocast(query, key, value)
    _check_kinds(query, key, value)
    dims = _dims(query, key, value)
    plain = None if _of_torch(attn_mask) else attn_mask
    if plain is not None:
        _check_mask(plain, query, is_causal)
    # What else is wrong with other numbers of dimensions torch's function says.
    if query.dim() == 4 or dims == {3} or min(dims) < 2:
        _check_shapes(query, key, value)
        attn_mask = attn_mask if plain is None else _fitting(plain, query, key)
    beside = attn_mask is not None or dropout_p > 0.0
    reason = _BESIDE if beside else refusal(query, key, value, scale=scale)
    if reason is None:
        out = operator(*_batched(query, key, value), is_causal, scale)
        return out[0] if dims == {3} else out
    if not torch.compiler.is_compiling():
        _warn_once(reason)
    return _sdpa(query, key, value, is_causal, scale, enable_gqa, attn_mask, dropout_p)


def refusal(query: Tensor, key: Tensor, value: Tensor, *, scale: float | None = None) -> str | None:
    """Why torch's function computes the attention of these tensors; None if the kernel does."""
    if _dims(query, key, value) not in ({3}, {4}):
        told = " and ".join(map(str, sorted(_dims(query, key, value))))
        return f"the kernel takes tensors of four dimensions, or all of three, not of {told}"
    if _differentiated(query, key, value):
        return "a gradient or another transform is wanted, and the kernel has none"
    if not query.is_cuda:
        return "the tensors are not on a CUDA GPU"
    if not torch.compiler.is_compiling() and not served(query.get_device()):
        return "the GPU is older than Ampere, or not of CUDA"
    return _unserved(*_batched(query, key, value), scale)


def compute(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float | None
) -> Tensor:
    """The same by the kernel, on the current GPU; for what neither check nor refusal rejects."""
    out = _new(query, value)
    if out.numel() == 0:
        return out
    if key.shape[2] == 0:
        return out.zero_()  # as torch's
    if query.stride(-1) != 1:
        query = query.contiguous()
    key, value = _loaded_by_vectors(key), _loaded_by_vectors(value)
    factor = _factor(query, scale)
    shared = _shared(query.get_device()) if query.is_cuda else triton_attention.HOPPER
    return triton_attention.attention(query, key, value, out, is_causal, factor, shared)


def _loaded_by_vectors(x: Tensor) -> Tensor:
    """``x``, or a copy where it would be loaded element by element, by every block of queries."""
    if x.stride(-1) == 1 and triton_attention.vectors(x):
        return x
    return x.clone(memory_format=torch.contiguous_format)


@cache
def _shared(device: int) -> int:
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def _dims(*tensors: Tensor) -> set[int]:
    return {t.dim() for t in tensors}


def _batched(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The tensors with a B, of 1 where they had none."""
    return (query[None], key[None], value[None]) if query.dim() == 3 else (query, key, value)


def _factor(query: Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)


def _unserved(query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> str | None:
    """Why the kernel does not take the tensors, which have a B, wherever they are."""
    batches, heads, queries, dim = query.shape
    if query.dtype not in KINDS:
        return f"the kernel takes {' and '.join(DTYPES)}, not {query.dtype}"
    if dim not in DIMS or value.shape[3] != dim:
        return (
            f"the kernel takes heads of {' or '.join(map(str, DIMS))} elements, "
            f"not {dim} (query, key) and {value.shape[3]} (value)"
        )
    if not LEAST_SCALE <= _factor(query, scale) * LOG2E <= MOST_SCALE:
        return f"the kernel takes a scale above 0 and within float32, not {scale}"
    if max(queries, key.shape[2]) > MOST_LENGTH:
        return f"the kernel takes at most {MOST_LENGTH} queries and keys"
    if FEW.programs(queries) * batches * heads > MOST_PROGRAMS:
        return f"the kernel has at most {MOST_PROGRAMS} programs"
    return None


def _differentiated(*tensors: Tensor) -> bool:
    return (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)) or transformed()


def _cast(x: Tensor) -> bool:
    kind = x.device.type
    return kind in AUTOCAST and torch.is_autocast_enabled(kind)


def _autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    if not _cast(tensors[0]):
        return tensors
    dtype = torch.get_autocast_dtype(tensors[0].device.type)
    return tuple(t.to(dtype) if t.is_floating_point() and t.itemsize < 8 else t for t in tensors)


def _check_types(
    query: Any, key: Any, value: Any, is_causal: Any, scale: Any, enable_gqa: Any
) -> None:
    for name, given in (("query", query), ("key", key), ("value", value)):
        check_tensor("attention", name, given)
    check_flags("attention", is_causal=is_causal, enable_gqa=enable_gqa)
    if scale is not None:
        check_finite("attention", scale=scale)


def _check_beside(attn_mask: Any, dropout_p: Any) -> None:
    """What only torch's function takes."""
    if attn_mask is not None:
        check_tensor("attention", "attn_mask", attn_mask)
    check_number("attention", "dropout_p", dropout_p)
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"attention expects a dropout_p from 0 to 1; got {told(dropout_p)}")


def _of_torch(attn_mask: Any) -> bool:
    """Whether it is a causal mask of torch's, whose shape and device say nothing.

    Only whoever has one has imported its module, which takes a second.
    """
    module = sys.modules.get("torch.nn.attention.bias")
    return module is not None and isinstance(attn_mask, module.CausalBias)


def _check_mask(attn_mask: Tensor, query: Tensor, is_causal: bool) -> None:
    """Raise TypeError or ValueError for what does not depend on the mask's shape."""
    if is_causal:
        raise ValueError(
            "attention takes an attn_mask or is_causal=True; got both: put one in the mask"
        )
    if attn_mask.device != query.device:
        raise ValueError(
            f"attention expects an attn_mask on {query.device}, as query; got one on "
            f"{attn_mask.device}: pass attn_mask.to(query.device)"
        )
    # Autocast casts the mask as well.
    if attn_mask.dtype not in (torch.bool, torch.float32, query.dtype) and not _cast(query):
        added = " or ".join(map(str, dict.fromkeys((query.dtype, torch.float32))))
        # What is added hides by -inf, and what is true or false by false: one is not the other.
        advice = f"to({query.dtype})" if attn_mask.is_floating_point() else "bool()"
        raise TypeError(
            f"attention takes an attn_mask of torch.bool, or of {added} to be added; got "
            f"{attn_mask.dtype}: pass attn_mask.{advice}"
        )


def _fitting(attn_mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """The mask with rows and columns, which torch's function wants and does not say.

    Keys are side by side: where one element stood for all of them, torch 2.11 gave wrong results on
    an H200, or a misaligned address.
    """
    scores = (*query.shape[:-1], key.shape[-2])
    sizes = zip(reversed(attn_mask.shape), reversed(scores), strict=False)
    if attn_mask.dim() > len(scores) or any(m not in (1, n) for m, n in sizes):
        raise ValueError(
            f"attention expects an attn_mask that is broadcast to {scores}; got "
            f"{tuple(attn_mask.shape)}: pass one of at most {len(scores)} dimensions, whose sizes, "
            "from the last on, are these or 1"
        )
    attn_mask = attn_mask if attn_mask.dim() > 1 else attn_mask.reshape(1, -1)
    if attn_mask.shape[-1] == scores[-1] and attn_mask.stride(-1) == 1:
        return attn_mask
    return attn_mask.expand(*attn_mask.shape[:-1], scores[-1]).contiguous()


def _check(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise RuntimeError, as torch's function does, unless the operator can take the tensors."""
    _check_kinds(query, key, value)
    if _dims(query, key, value) != {4}:
        raise RuntimeError(
            "roofline::attention expects query (B, H, S_q, D), key and value (B, H_kv, S_k, D); "
            f"{_shapes(query, key, value)}: call kernels.attention, which takes others"
        )
    _check_shapes(query, key, value)


def _check_kinds(*tensors: Tensor) -> None:
    query = tensors[0]
    if any(t.dtype != query.dtype or t.device != query.device for t in tensors):
        raise RuntimeError(
            "attention expects query, key and value of one dtype on one device; got "
            f"{', '.join(f'{t.dtype} on {t.device}' for t in tensors)}: cast or move them"
        )
    if query.dtype not in FLOATS:
        raise RuntimeError(
            "attention expects floating-point tensors, of 16 bits at least; got "
            f"{query.dtype}: cast them first"
        )


def _check_shapes(query: Tensor, key: Tensor, value: Tensor) -> None:
    tensors = (query, key, value)
    if _dims(*tensors) not in ({3}, {4}):
        raise RuntimeError(
            "attention expects query (B, H, S_q, D) and key and value (B, H_kv, S_k, D), or all "
            f"without B; {_shapes(*tensors)}: unsqueeze or reshape them"
        )
    if query.shape[:-3] != key.shape[:-3] or key.shape[:-1] != value.shape[:-1]:
        raise RuntimeError(
            "attention expects one B of all three and one (H_kv, S_k) of key and value; "
            f"{_shapes(*tensors)}: expand them first"
        )
    if query.shape[-1] != key.shape[-1]:
        raise RuntimeError(
            f"attention expects one D of query and key; {_shapes(*tensors)}: project them alike"
        )
    if query.shape[-3] % (key.shape[-3] or sys.maxsize):
        raise RuntimeError(
            "attention expects as many heads of query as of key, or a multiple of them; "
            f"{_shapes(*tensors)}: give key and value as many as query has, or a divisor of them"
        )


def _shapes(*tensors: Tensor) -> str:
    return f"got {', '.join(str(tuple(t.shape)) for t in tensors)}"


def _sdpa(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float | None,
    enable_gqa: bool = False, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
) -> Tensor:  # fmt: skip
    call = partial(
        functional.scaled_dot_product_attention, query, key, value, attn_mask, float(dropout_p),
        is_causal=is_causal, scale=scale,
    )  # fmt: skip
    # The backends that fuse have a gradient, and neither a tangent nor a second gradient.
    with sdpa_kernel(SDPBackend.MATH) if differentiated_further() else nullcontext():
        # A branch and not a value: under torch.compile a comparison of shapes is no bool.
        return call(enable_gqa=True) if enable_gqa or _heads_share(query, key, value) else call()


def _heads_share(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether torch's function has to be told so; where shapes broadcast it need not be."""
    alike = _dims(query, key, value) == {query.dim()} and query.dim() > 2
    return alike and query.shape[-3] > key.shape[-3] > 0


def _new(query: Tensor, value: Tensor) -> Tensor:
    """Memory for the output: strides of the query's order, but for the last."""
    if query.stride(-1) == 1 and query.shape[-1] == value.shape[-1]:
        return torch.empty_like(query)
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


def _cuda(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float | None
) -> Tensor:
    _check(query, key, value)
    device = query.get_device()
    if not served(device) or _unserved(query, key, value, scale):
        return _torch(query, key, value, is_causal, scale)
    # Triton loads a kernel at its first launch, which may be while a graph is captured.
    with torch.cuda.device(device), relaxed():
        return compute(query, key, value, is_causal, scale)


def _torch(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float | None
) -> Tensor:
    _check(query, key, value)
    return _new(query, value).copy_(_sdpa(query, key, value, is_causal, scale))


def _fake(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float | None
) -> Tensor:
    _check(query, key, value)
    return _new(query, value)


def _no_gradient(ctx: Any, grad: Tensor) -> None:
    raise RuntimeError(
        "roofline::attention has no gradient: call kernels.attention, which leaves what "
        "needs one to torch.nn.functional.scaled_dot_product_attention"
    )


@cache
def _warn_once(reason: str) -> None:
    warnings.warn(
        f"attention goes through torch's scaled_dot_product_attention: {reason}",
        stacklevel=4,  # the caller of attention_eager.attention
    )


torch.library.impl("roofline::attention", "cuda", _cuda)
torch.library.impl("roofline::attention", "cpu", _torch)
torch.library.register_fake("roofline::attention", _fake)
torch.library.register_autograd("roofline::attention", _no_gradient)
