"""``attention`` past PyTorch's dispatcher and Triton's launch, which take longer than all else of a
short call.

What a launch depends on is a key, as in eager.py, by which one is found that lacks its pointers and
its stream: a kernel that Triton has compiled, its grid, and all other arguments.  Where torch's
function computes, because of the dtype or of a gradient, what is found right once is not checked
again.
"""

from __future__ import annotations

import math
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.nn import functional

from kernels import attention_api
from kernels.attention_api import KINDS
from kernels.prepared import KEPT, Launch, known, launch
from kernels.transforms import transformed
from kernels.triton import triton_attention
from kernels.triton.triton_attention import LOG2E, described, strides, tile_for
from kernels.unwatched import dense, observed

ALIGNED = 16  # bytes; Triton compiles another kernel for a pointer at no multiple of them


# Calls that torch's function has computed after all checks, none of which asks for more of them:
# whether it has to be told that heads share.
_BY_TORCH: dict[Any, bool] = {}
# What Triton has compiled, by all that it compiles for.
_KERNELS: dict[Any, Any] = {}


@wraps(attention_api.attention)
def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    case = None
    if (
        not is_compiling()
        and attn_mask is None
        and type(dropout_p) is float
        and dropout_p == 0.0
        and type(is_causal) is type(enable_gqa) is bool
        and (scale is None or type(scale) is float)
        and all(map(dense, (query, key, value)))
        and not observed(query.dtype)
    ):
        differentiated = torch.is_grad_enabled() and (
            query.requires_grad or key.requires_grad or value.requires_grad
        )
        if differentiated or query.dtype not in KINDS:
            if not transformed():  # torch.func's derivatives have a way of their own
                case = (
                    *(_lie(query, key, value), is_causal, scale, enable_gqa, differentiated),
                    torch.is_autocast_enabled(),  # which casts what else would be refused
                )
            if (shared := _BY_TORCH.get(case)) is not None:
                return functional.scaled_dot_product_attention(
                    query, key, value, None, 0.0, is_causal, scale=scale, enable_gqa=shared
                )
        elif (out := _launched(query, key, value, is_causal, scale)) is not None:
            return out
    out = attention_api.attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )  # fmt: skip
    if case is not None:
        if len(_BY_TORCH) >= KEPT:
            _BY_TORCH.clear()
        _BY_TORCH[case] = enable_gqa or attention_api._heads_share(query, key, value)
    return out


def _lie(*tensors: Tensor) -> tuple[Any, ...]:
    """What checks ask of the tensors."""
    return tuple((t.dtype, t.shape, t.stride(), t.get_device()) for t in tensors)


def _kind(number: int) -> tuple[bool, bool, bool]:
    """What Triton may compile an integer's value in for: a kernel of others is another one."""
    return number == 1, number % ALIGNED == 0, number.bit_length() > 31


def _launched(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float | None
) -> Tensor | None:
    """The attention by a launch that is known, or known from now on; None where it is not one."""
    device, sources = query.get_device(), (query.data_ptr(), key.data_ptr(), value.data_ptr())
    aligned = (source % ALIGNED == 0 for source in sources)
    case = ("attention", _lie(query, key, value), *aligned, is_causal, scale)
    ready = known(device, case)
    if ready is None and not _is_one_launch(query, key, value, scale):
        return None
    out = torch.empty_like(query)  # as the operator's: CUDA memory begins on a boundary
    if ready:
        ready(torch._C._cuda_getCurrentRawStream(device), *sources, out.data_ptr())
    else:
        prepare = partial(_prepare, query, key, value, out, is_causal, scale)
        launch(device, case, prepare, *sources, out.data_ptr())
    return out


def _is_one_launch(query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> bool:
    """Whether the kernel takes the tensors as they lie; whoever it is not tells what is wrong."""
    tensors = (query, key, value)
    try:
        attention_api._check(*tensors)
    except RuntimeError:
        return False
    return (
        (scale is None or math.isfinite(scale))
        and attention_api.refusal(*tensors, scale=scale) is None
        and query.numel() > 0
        and key.shape[2] > 0
        and all(t.stride(-1) == 1 for t in tensors)
        and all(map(triton_attention.vectors, (key, value)))
    )


def _prepare(
    query: Tensor, key: Tensor, value: Tensor, out: Tensor, is_causal: bool, scale: float | None
) -> Launch:  # fmt: skip
    """The launch of triton_attention.attention for tensors that lie as these."""
    batches, heads, queries, dim = query.shape
    tile = tile_for(query, key, value, attention_api._shared(query.get_device()))
    numbers = (
        *strides(query), *strides(key), *strides(value), *strides(out), queries, key.shape[2],
        heads, heads // key.shape[1],
    )  # fmt: skip
    beside = (*numbers, attention_api._factor(query, scale) * LOG2E)
    constants = triton_attention._constants(tile, dim, is_causal)
    grid = (tile.programs(queries) * batches * heads, 1, 1)
    places = _Address(key), _Address(value)
    given: tuple[Any, ...] = (key, value)
    if tile.copied:
        given = tuple(described(*pair, tile) for pair in zip(given, places, strict=True))
    # Triton compiles another kernel for another of these, or less often; asked, it takes longer to
    # find one than all else here, and texts grow by a token a call.
    kind = (
        *(query.get_device(), query.dtype, tile, *constants.values()),
        *(t.data_ptr() % ALIGNED == 0 for t in (query, key, value)), *map(_kind, numbers),
    )  # fmt: skip
    if (kernel := _KERNELS.get(kind)) is None:
        compiler: Any = triton_attention._attention
        kernel = compiler.warmup(
            query, *given, out, *beside, **constants, grid=grid,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
        if len(_KERNELS) >= KEPT:
            _KERNELS.clear()
        _KERNELS[kind] = kernel
    run, beside = kernel[grid], (*beside, *constants.values())
    if not tile.copied:
        return lambda stream, *pointers: run(*pointers, *beside, stream=stream)

    def launch(stream: int, source: int, of_keys: int, of_values: int, to: int) -> None:
        places[0].at, places[1].at = of_keys, of_values
        run(source, *given, to, *beside, stream=stream)

    return launch


class _Address:
    """Memory that a descriptor is of, which a launch tells anew; as a tensor to Triton."""

    def __init__(self, x: Tensor) -> None:
        self.at, self.dtype = x.data_ptr(), x.dtype

    def data_ptr(self) -> int:
        return self.at
