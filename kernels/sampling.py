"""``sample``: a token of each row as its probability has it, and the operator behind it."""

from __future__ import annotations

import math
import struct

import torch
from torch import Tensor

from kernels import ops, sampling_torch
from kernels.frontier import choice
from kernels.frontier.rows import as_rows

torch.library.define(
    "roofline::sample",
    "(Tensor logits, float temperature, SymInt? top_k, float top_p, SymInt seed, SymInt offset) "
    "-> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
operator = torch.ops.roofline.sample.default


def sample(
    logits: Tensor, *, temperature: float = 1.0, top_k: int | None = None,
    top_p: float | None = None, generator: torch.Generator | None = None, seed: int | None = None,
    offset: int = 0,
) -> Tensor:  # fmt: skip
    """A token of each row of ``logits`` (M, N), with the probabilities of softmax(logits / T).

    Gives ids (M,), int64. The id of a row depends on ``seed``, ``offset``, the row's number and its
    logits alone: neither on the other rows, nor on how a row is split, nor on the device. The
    column's random number is that of Philox4x32-10 for (column, row, offset) under the key seed,
    and the id is the column with the largest sum of logit / T and Gumbel noise (of equals the
    first).

    temperature  T > 0
    top_k        the k most probable tokens are kept, 1 <= k <= N
    top_p        of these the fewest most probable ones are kept whose probabilities add up to
                 top_p of the sum of all these; 0 < top_p <= 1. Sums are of integers: a token
                 counts for its probability relative to the most probable one's, in multiples of
                 2^-40 (beyond 2^21 columns of larger powers), less what is left over. Of tokens
                 with equal logits those with lower ids are kept, in top-k too
    generator    where seed and offset come from if no seed is given; None is torch's own on the
                 CPU. One on a GPU gives its seed and its offset, which grows by 4
    seed         of 64 bits
    offset       of 64 bits: another one for each call with the same seed

    A token with -inf is never chosen; in a row of nothing else it is 0. A row with NaN gives the
    first NaN's column, a row with +inf the first +inf's, as torch.argmax. A CUDA graph keeps the
    seed and the offset with which it was captured: replays give the same ids for the same logits.
    float16, bfloat16 and float32 go through this project's kernels on CUDA; other dtypes are
    rounded to float32. Raises TypeError for what is no floating-point tensor, ValueError for
    another shape and for numbers out of their range.
    """
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        kind = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
        raise TypeError(f"sample expects a floating-point tensor; got {kind}: pass logits.float()")
    if logits.dim() != 2 or logits.shape[1] == 0:
        raise ValueError(
            f"sample expects rows of at least one logit, (M, N); got shape {tuple(logits.shape)}"
        )
    if not temperature > 0:
        raise ValueError(
            f"sample expects a temperature above 0; got {temperature}: for 0 use logits.argmax(-1)"
        )
    _inverse(temperature)
    if top_k is not None and not 1 <= top_k <= logits.shape[1]:
        raise ValueError(
            f"sample expects top_k from 1 to the {logits.shape[1]} columns; got {top_k}"
        )
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"sample expects top_p above 0 and at most 1; got {top_p}")
    if seed is None:
        seed, offset = _drawn(generator, offset)
    elif generator is not None:
        raise ValueError("sample expects a seed or a generator; got both: leave one away")
    return operator(
        logits, float(temperature), top_k, 1.0 if top_p is None else float(top_p),
        _of_64_bits("seed", seed), _of_64_bits("offset", offset),
    )  # fmt: skip


def _drawn(generator: torch.Generator | None, offset: int) -> tuple[int, int]:
    if generator is not None and generator.device.type == "cuda":
        at = generator.get_offset()
        generator.set_offset(at + 4)  # offsets of torch's own are multiples of 4
        return generator.initial_seed(), at + offset
    return int(torch.randint(2**63 - 1, (), generator=generator)), offset


def _of_64_bits(name: str, value: int) -> int:
    """As an int64 with the same bits."""
    if not -(2**63) <= value < 2**64:
        raise ValueError(f"sample expects a {name} of 64 bits; got {value}")
    return value - 2**64 if value >= 2**63 else value


def _inverse(temperature: float) -> float:
    """1 / temperature as a float32, which multiplies logits on every device."""
    try:
        (inverse,) = struct.unpack("=f", struct.pack("=f", 1 / temperature))
    except (OverflowError, ZeroDivisionError):
        inverse = math.inf
    if not 0 < inverse < math.inf:
        raise ValueError(
            f"sample expects a temperature whose inverse float32 holds; got {temperature}"
        )
    return inverse


def _cuda(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float, seed: int, offset: int
) -> Tensor:
    if not ops.serves(logits, -1, torch.float32):
        return _torch(logits, temperature, top_k, top_p, seed, offset)
    x = logits if logits.dtype in choice.NAMES else logits.float()
    x = x if as_rows(x.shape, x.stride()) else x.contiguous()
    out = _fake(x, temperature, top_k, top_p, seed, offset)
    choice.sample(x, choice.Chance(seed, offset, _inverse(temperature), top_k, top_p), out)
    return out


def _torch(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float, seed: int, offset: int
) -> Tensor:
    return sampling_torch.sample(logits, _inverse(temperature), top_k, top_p, seed, offset)


def _fake(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float, seed: int, offset: int
) -> Tensor:
    return logits.new_empty(logits.shape[0], dtype=torch.int64)


torch.library.impl("roofline::sample", "cuda", _cuda)
torch.library.impl("roofline::sample", "cpu", _torch)
torch.library.register_fake("roofline::sample", _fake)
