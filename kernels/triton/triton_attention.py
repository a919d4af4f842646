"""triton_attention: softmax(Q K^T * scale) V in one kernel, whose scores are never in memory.

moves    Q once, the output once; K and V once per block of queries (again mostly from the L2)
launch   a program per head and block of 64 or 128 queries, by rule
holds    heads of 64 or 128 elements of 16 bits; any lengths, any strides but a unit one of the last
teaches  what the online softmax is for: two products with their softmax between them, fused
source   S1's stub; Milakov and Gimelshein 2018; Rabe and Staats 2021; Dao et al. 2022; Dao 2023
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import triton
import triton.language as tl

from kernels.specialise import Specialisation

if TYPE_CHECKING:  # compiling needs no torch
    from collections.abc import Iterator

    from torch import Tensor

DIMS = (64, 128)
DTYPES = ("float16", "bfloat16")
MOST_LENGTH = 2**30  # of queries or keys, whose numbers have 32 bits with room for a block
MOST_PROGRAMS = 2**31 - 1  # of a grid
LOG2E = 1.4426950408889634
ELEMENT = 2  # bytes
HOPPER = 227 * 1024  # bytes of shared memory that a program may take
# The interpreter multiplies the bits of bfloat16 (triton-lang/triton, issue 11584).
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


class Tile(NamedTuple):
    """Queries of a program, keys that it takes at a time, its warps, and blocks of keys on chip."""

    queries: int
    keys: int
    warps: int
    stages: int

    def shared(self, dim: int) -> int:
        """Bytes of shared memory for queries, keys and values of ``dim`` elements, at most."""
        return (self.queries + 2 * self.stages * self.keys) * dim * ELEMENT

    def programs(self, queries: int) -> int:
        """Programs of a head."""
        return -(-queries // self.queries)


def rule(queries: int, dim: int, shared: int = HOPPER) -> Tile:
    """The tile for heads of ``queries``, on a GPU with ``shared`` bytes a program.

    128 queries use a block of keys twice as often as 64 do.  A warp has 32 of them, or 16 where
    their sums, of ``dim`` numbers each, would leave no registers for the scores.  For many queries
    this is what PyTorch's FlexAttention takes on the A100, and for 128 elements on the H100.
    """
    tile = Tile(128, 64, dim // 16, 3) if queries > 64 else Tile(64, 64, 4, 3)
    return tile if tile.shared(dim) <= shared else tile._replace(stages=2)


# What would compile a kernel for each value that is 1 or a multiple of 16, and gain nothing.
PLAIN = ("queries", "keys", "heads", "group", "scale")


@triton.jit(do_not_specialize=PLAIN)
def _attention(
    query_ptr, key_ptr, value_ptr, out_ptr,
    query_batch, query_head, query_row, key_batch, key_head, key_row,
    value_batch, value_head, value_row, out_batch, out_head, out_row,
    queries, keys, heads, group, scale,
    DIM: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(queries, QUERIES)
    program = tl.program_id(0)
    # Programs of a head are neighbours: its keys and values stay in the L2.
    batch_head, block = program // blocks, program % blocks
    if CAUSAL:
        block = blocks - 1 - block  # the last queries see the most keys: they begin
    batch = (batch_head // heads).to(tl.int64)
    head = (batch_head % heads).to(tl.int64)
    first = block * QUERIES
    row = first + tl.arange(0, QUERIES)
    own = (row < queries)[:, None]
    lane = tl.arange(0, KEYS)
    column = tl.arange(0, DIM)[None, :]

    query_ptr += batch * query_batch + head * query_head
    query = tl.load(query_ptr + row.to(tl.int64)[:, None] * query_row + column, mask=own, other=0.0)
    key_at = key_ptr + batch * key_batch + head // group * key_head
    key_at += lane.to(tl.int64)[:, None] * key_row + column
    value_at = value_ptr + batch * value_batch + head // group * value_head
    value_at += lane.to(tl.int64)[:, None] * value_row + column

    peak = tl.full([QUERIES], -float("inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    sums = tl.zeros([QUERIES, DIM], tl.float32)
    # Of keys that all rows see, whole blocks; then those that some row does not see, or no row.
    end, whole = keys, keys // KEYS * KEYS
    if CAUSAL:
        end = tl.minimum(keys, first + QUERIES)
        whole = tl.minimum(whole, (first + 1) // KEYS * KEYS)
    for start in range(0, whole, KEYS):
        at = tl.cast(start, tl.int64)
        key, value = tl.load(key_at + at * key_row), tl.load(value_at + at * value_row)
        peak, total, sums = _fold(peak, total, sums, _dot(query, key.T, None), value, scale)
    for start in range(whole, end, KEYS):
        at = tl.cast(start, tl.int64)
        there = (start + lane < keys)[:, None]
        key = tl.load(key_at + at * key_row, mask=there, other=0.0)
        # A weight of 0 does not undo what is no number.
        value = tl.load(value_at + at * value_row, mask=there, other=0.0)
        seen = (start + lane < keys)[None, :]
        if CAUSAL:
            seen = seen & (start + lane[None, :] <= row[:, None])
        scores = tl.where(seen, _dot(query, key.T, None), -float("inf"))
        peak, total, sums = _fold(peak, total, sums, scores, value, scale)

    out_ptr += batch * out_batch + head * out_head
    out = sums / total[:, None]
    out_at = out_ptr + row.to(tl.int64)[:, None] * out_row + column
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=own)


@triton.jit
def _fold(peak, total, sums, scores, value, scale):
    """The running maximum, sum and weighted sum of values, with a block of keys more."""
    higher = tl.maximum(peak, tl.max(scores, axis=1))
    # Scores of nothing but -inf count 0, and would give exp(-inf - -inf) = NaN here.
    shift = tl.where(higher == -float("inf"), 0.0, higher)
    # One FMA, with the maximum scaled ahead, would be off by how that was rounded: for the largest
    # scores by a factor that weights of float16 do not hold.
    weights = tl.exp2((scores - shift[:, None]) * scale)
    before = tl.exp2((peak - shift) * scale)
    total = total * before + tl.sum(weights, axis=1)
    sums = _dot(weights.to(value.dtype), value, sums * before[:, None])
    return higher, total, sums


@triton.jit
def _dot(a, b, sums):
    if _INTERPRETED:
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, sums)


def attention(
    query: Tensor, key: Tensor, value: Tensor, out: Tensor, is_causal: bool, scale: float,
    shared: int = HOPPER,
) -> Tensor:  # fmt: skip
    """The attention of ``query`` (B, H, S_q, D) to ``key`` and ``value`` (B, H_kv, S_k, D).

    ``out`` is as ``query``; none is empty, all have a unit stride in D, and H is a multiple of
    H_kv.  ``scale`` is positive.
    """
    batches, heads, queries, dim = query.shape
    tile = rule(queries, dim, shared)
    _attention[(tile.programs(queries) * batches * heads,)](
        query, key, value, out, *strides(query), *strides(key), *strides(value), *strides(out),
        queries, key.shape[2], heads, heads // key.shape[1], scale * LOG2E,
        **_constants(tile, dim, is_causal), num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return out


def strides(x: Tensor) -> tuple[int, ...]:
    """Those of ``x`` but for the last dimension; 0 where nothing depends on one."""
    return tuple(x.stride(i) if x.shape[i] > 1 else 0 for i in range(3))


def vectors(x: Tensor) -> bool:
    """Whether the kernel loads ``x`` 16 bytes at a time, or else element by element.

    Triton is told of starts at multiples of 16 bytes and strides of 16 elements, of no others.
    """
    return x.data_ptr() % 16 == 0 and all(stride % 16 == 0 for stride in strides(x))


def _constants(tile: Tile, dim: int, is_causal: bool) -> dict[str, int]:
    return {"DIM": dim, "QUERIES": tile.queries, "KEYS": tile.keys, "CAUSAL": is_causal}


def specialisations(shared: int = HOPPER) -> Iterator[Specialisation]:
    """Many and few queries of either size, causal and not."""
    for dim, queries, is_causal in product(DIMS, (128, 64), (True, False)):
        tile = rule(queries, dim, shared)
        yield Specialisation(
            _attention, _constants(tile, dim, is_causal), tile.warps, dtypes=DTYPES,
            types={"scale": "fp32"}, options={"num_stages": tile.stages},
        )  # fmt: skip
