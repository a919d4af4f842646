"""A sample of a softmax by torch, with the bits of kernels/frontier/random.cuh.

Every operation rounds once, as IEEE 754 says, so that CPU and GPU choose the same tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.frontier.choice_plans import weight_bits

WORD = 0xFFFFFFFF
LN2, LOG2E = 0.693147182, 1.44269502  # of float32
TERMS = (  # of the series of 2^f, as random.cuh has them
    1.54035297e-4, 1.33335579e-3, 9.61812865e-3, 5.55041097e-2, 2.40226507e-1, 6.93147182e-1, 1.0,
)  # fmt: skip
HALF_ROOT = 0x3F3504F3  # sqrt(1/2) as bits of a float32


def philox(counter: list[Tensor], seed: int) -> list[Tensor]:
    """Philox4x32-10 of four words of a counter (int64 tensors) under a key of 64 bits.

    source   Salmon, Moraes, Dror and Shaw 2011, Parallel Random Numbers: As Easy as 1, 2, 3
    """
    c, key = counter, [seed & WORD, seed >> 32 & WORD]
    for _ in range(10):
        (high0, low0), (high1, low1) = _product(c[0], 0xD2511F53), _product(c[2], 0xCD9E8D57)
        c = [high1 ^ c[1] ^ key[0], low1, high0 ^ c[3] ^ key[1], low0]
        key = [key[0] + 0x9E3779B9 & WORD, key[1] + 0xBB67AE85 & WORD]
    return c


def _product(a: Tensor, b: int) -> tuple[Tensor, Tensor]:
    """The high and the low word, by halves: int64 has a sign."""
    low, high = (a & 0xFFFF) * b, (a >> 16) * b
    return (high + (low >> 16)) >> 16, low + ((high & 0xFFFF) << 16) & WORD


def words(rows: int, cols: int, seed: int, offset: int, device: torch.device) -> Tensor:
    """A word for each element (int64): it depends on seed, offset, row and column alone."""
    blocks = torch.arange(-(-cols // 4), device=device).expand(rows, -1)
    row = torch.arange(rows, device=device)[:, None].expand_as(blocks)
    low, high = (torch.full_like(blocks, offset >> shift & WORD) for shift in (0, 32))
    made = philox([blocks, row, low, high], seed)
    return torch.stack(made, -1).flatten(1)[:, :cols]


def _log(t: Tensor, exponent: Tensor) -> Tensor:
    """ln(1 + t) + exponent ln 2."""
    s = t / (t + 2.0)
    q = s * s
    total = torch.full_like(q, 1 / 9)
    for odd in (7, 5, 3, 1):
        total = total * q + torch.full_like(q, 1 / odd)
    return (s + s) * total + exponent.float() * LN2


def _log_of(v: Tensor) -> Tensor:
    bits = v.view(torch.int32)
    exponent = (bits - HALF_ROOT) >> 23
    return _log((bits - exponent * 2**23).view(torch.float32) + -1.0, exponent)


def gumbel(word: Tensor) -> Tensor:
    """Gumbel noise of words (int64), in float32."""
    u = (word.float() + 0.5) * 2.0**-32
    rest = ((WORD - word).float() + 0.5) * 2.0**-32
    none = torch.zeros((), dtype=torch.int32, device=word.device)
    wait = torch.where(u < 0.25, _log(-u, none), _log_of(rest))
    return -_log_of(-wait)


def weights(x: Tensor, inverse_temperature: float, fixed: int) -> Tensor:
    """exp((x - max) / temperature) of float32 rows as integers, 2^fixed for the largest."""
    top = x.amax(-1, keepdim=True)  # NaN where there is one
    numbers = torch.tensor((inverse_temperature, LOG2E), dtype=torch.float32, device="cpu")
    factor = float(numbers.prod().clamp(max=torch.finfo(torch.float32).max))
    t = ((x - top) * factor).clamp(min=-44.0).nan_to_num(-44.0)
    n = torch.round(t)
    f, total = t - n, torch.full_like(t, TERMS[0])
    for term in TERMS[1:]:
        total = total * f + term
    power = (n.int() + (fixed + 127)) << 23
    weight = (total * power.view(torch.float32)).long()
    same = (x == top) | (x.isnan() & top.isnan())
    return torch.where(top.isfinite(), weight, same.long() << fixed)


def kept(x: Tensor, inverse_temperature: float, top_k: int | None, top_p: float) -> Tensor:
    """Which elements of float32 rows top-k, then top-p, keep; of equals the first."""
    values, order = torch.sort(x, dim=-1, descending=True, stable=True)
    rank = torch.arange(x.shape[1], device=x.device)
    stay = (rank < (x.shape[1] if top_k is None else top_k)).expand_as(x)
    if top_p < 1.0:
        weight = weights(values, inverse_temperature, weight_bits(x.shape[1])) * stay
        upto = weight.cumsum(-1)
        total = upto[:, -1:]
        wanted = (total.double() * top_p).ceil().long().clamp(min=1).minimum(total)
        stay = stay & (upto - weight < wanted)
    return torch.zeros_like(stay).scatter(-1, order, stay)


def sample(
    x: Tensor, inverse_temperature: float, top_k: int | None, top_p: float, seed: int, offset: int
) -> Tensor:
    """A token of each row; ``inverse_temperature`` is a float32's value."""
    rows, cols = x.shape
    if rows == 0:
        return x.new_empty(0, dtype=torch.int64)
    x = x.float()
    score = x * inverse_temperature + gumbel(words(rows, cols, seed, offset, x.device))
    if top_k is not None or top_p < 1.0:
        score = score.masked_fill(~kept(x, inverse_temperature, top_k, top_p), -torch.inf)
    return score.argmax(-1)
