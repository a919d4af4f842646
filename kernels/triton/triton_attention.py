"""triton_attention: softmax(Q K^T * scale) V in one kernel, whose scores are never in memory.

moves    Q once, the output once; K and V once per block of queries (again mostly from the L2)
launch   a program per head and block of 64 or 128 queries, by rule
holds    heads of 64 or 128 elements of 16 bits; any lengths, any strides but a unit one of the last
teaches  what the online softmax is for: two products with their softmax between them, fused; what
         the copy engine is for: warps that compute do not load
source   S1's stub; Milakov and Gimelshein 2018; Rabe and Staats 2021; Dao et al. 2022; Dao 2023
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

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
    """Queries of a program, keys that it takes at a time, its warps, and blocks of keys on chip.

    ``copied``: the copy engine brings keys and values, by a descriptor of each tensor.
    """

    queries: int
    keys: int
    warps: int
    stages: int
    copied: bool = False

    def shared(self, dim: int) -> int:
        """Bytes of shared memory for queries, keys and values of ``dim`` elements, at most."""
        return (self.queries + 2 * self.stages * self.keys) * dim * ELEMENT

    def programs(self, queries: int) -> int:
        """Programs of a head."""
        return -(-queries // self.queries)


# Programs of 4 warps and 64 queries share a multiprocessor: one multiplies while another is at its
# exponentials.  FEWEST queries make as many programs as there can be.
FEWEST = 64
FEW = Tile(FEWEST, 64, 4, 3)
# From so many keys on a descriptor is worth what it takes to make one; from MANY on 128 keys at a
# time are, for heads of 128 with as many queries, which halve what is read from the L2.
SOME, MANY = 1024, 4096


def rule(queries: int, keys: int, dim: int, shared: int = HOPPER) -> Tile:
    """The tile for heads of ``queries`` and ``keys``, on a GPU with ``shared`` bytes a program.

    With HOPPER's shared memory, which only GPUs with a copy engine have, it was the fastest or near
    it at four lengths of 16,384 tokens on an H200 (docs/attention.md). On others 128 queries use a
    block of keys twice as often as 64 do, and a warp has 32 of them, or 16 where their sums, of
    ``dim`` numbers each, would leave no registers for the scores: for many queries what PyTorch's
    FlexAttention takes on the A100.
    """
    if shared >= HOPPER:
        if keys < SOME:
            return FEW
        if dim == 64:
            return Tile(64, 128, 4, 2, copied=True)
        if keys < MANY or queries <= FEWEST:
            return FEW._replace(copied=True)
        return Tile(128, 128, 8, 3, copied=True)
    tile = Tile(128, 64, dim // 16, 3) if queries > FEWEST else FEW
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
    COPIED: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(queries, QUERIES)
    program = tl.program_id(0)
    # Programs of a head are neighbours: its keys and values stay in the L2.
    batch_head, block = program // blocks, program % blocks
    if CAUSAL:
        block = blocks - 1 - block  # the last queries see the most keys: they begin
    batch, head = batch_head // heads, batch_head % heads
    first = block * QUERIES
    row = first + tl.arange(0, QUERIES)
    own = (row < queries)[:, None]
    column = tl.arange(0, DIM)[None, :]
    query_ptr += batch.to(tl.int64) * query_batch + head.to(tl.int64) * query_head
    query = tl.load(query_ptr + row.to(tl.int64)[:, None] * query_row + column, mask=own, other=0.0)

    shared = head // group
    key = _from_first(key_ptr, batch, shared, key_batch, key_head, key_row, DIM, KEYS, COPIED)
    value = _from_first(
        value_ptr, batch, shared, value_batch, value_head, value_row, DIM, KEYS, COPIED
    )
    # What is the same for all batches or heads is described once.
    key_of = tl.where(key_batch == 0, 0, batch), tl.where(key_head == 0, 0, shared)
    value_of = tl.where(value_batch == 0, 0, batch), tl.where(value_head == 0, 0, shared)
    # Of keys that all rows see, whole blocks; then those that some row does not see, or no row.
    end, whole = keys, keys // KEYS * KEYS
    if CAUSAL:
        end = tl.minimum(keys, first + QUERIES)
        whole = tl.minimum(whole, (first + 1) // KEYS * KEYS)
    total, sums, farthest = _over_keys(
        query, row, key, key_of, key_row, value, value_of, value_row, whole, end, keys, scale,
        DIM, QUERIES, KEYS, CAUSAL, COPIED, not COPIED,
    )  # fmt: skip
    if COPIED:  # noqa: SIM102 - a constant; else there are no registers for a second way
        if tl.max(farthest, axis=0) > NEAR:
            total, sums, farthest = _over_keys(
                query, row, key, key_of, key_row, value, value_of, value_row, whole, end, keys,
                scale, DIM, QUERIES, KEYS, CAUSAL, COPIED, True,
            )  # fmt: skip

    out_ptr += batch.to(tl.int64) * out_batch + head.to(tl.int64) * out_head
    out = sums / total[:, None]
    out_at = out_ptr + row.to(tl.int64)[:, None] * out_row + column
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=own)


@triton.jit
def _from_first(
    ptr, batch, head, batch_stride, head_stride, row,
    DIM: tl.constexpr, KEYS: tl.constexpr, COPIED: tl.constexpr,
):  # fmt: skip
    """Pointers to a head's first block; or the descriptor, which has all heads."""
    if not COPIED:
        ptr += batch.to(tl.int64) * batch_stride + head.to(tl.int64) * head_stride
        lane = tl.arange(0, KEYS).to(tl.int64)
        ptr += lane[:, None] * row + tl.arange(0, DIM)[None, :]
    return ptr


@triton.jit
def _block(
    first, of, row, start, keys,
    DIM: tl.constexpr, KEYS: tl.constexpr, WHOLE: tl.constexpr, COPIED: tl.constexpr,
):  # fmt: skip
    """Rows from ``start`` on, of zeros from ``keys`` on: a weight of 0 undoes no NaN."""
    if COPIED:
        block = first.load([of[0], of[1], start, 0]).reshape(KEYS, DIM)
    elif WHOLE:
        block = tl.load(first + tl.cast(start, tl.int64) * row)
    else:
        there = (start + tl.arange(0, KEYS) < keys)[:, None]
        block = tl.load(first + tl.cast(start, tl.int64) * row, mask=there, other=0.0)
    return block


@triton.jit
def _over_keys(
    query, row, key, key_of, key_row, value, value_of, value_row, whole, end, keys, scale,
    DIM: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, CAUSAL: tl.constexpr,
    COPIED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Each query's sum of weights and of weighted values, and how far from 0 its maxima were."""
    peak = tl.full([QUERIES], -float("inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    farthest = tl.zeros([QUERIES], tl.float32)
    sums = tl.zeros([QUERIES, DIM], tl.float32)
    for start in range(0, whole, KEYS):
        block = _block(key, key_of, key_row, start, keys, DIM, KEYS, True, COPIED)
        values = _block(value, value_of, value_row, start, keys, DIM, KEYS, True, COPIED)
        scores = _dot(query, block.T, None)
        peak, total, sums, farthest = _fold(
            peak, total, sums, farthest, scores, values, scale, EXACT
        )
    for start in range(whole, end, KEYS):
        block = _block(key, key_of, key_row, start, keys, DIM, KEYS, False, COPIED)
        values = _block(value, value_of, value_row, start, keys, DIM, KEYS, False, COPIED)
        column = (start + tl.arange(0, KEYS))[None, :]
        seen = column < keys
        if CAUSAL:
            seen = seen & (column <= row[:, None])
        scores = tl.where(seen, _dot(query, block.T, None), -float("inf"))
        peak, total, sums, farthest = _fold(
            peak, total, sums, farthest, scores, values, scale, EXACT
        )
    return total, sums, farthest


# In base 2.  A weight is one FMA and its exponential: the maximum of its row is scaled and rounded
# before, the same for all weights, which are then off by a factor that their sum has too.  While
# maxima are so near to 0, two roundings, where nothing fuses them, are some 2^-14 of a weight at
# most.  From 2^23 on scores that differ may be one, and from 2^28 on weights of float16 overflow:
# EXACT subtracts before it scales.
NEAR = tl.constexpr(1024.0)


@triton.jit
def _fold(peak, total, sums, farthest, scores, values, scale, EXACT: tl.constexpr):
    """The running maximum, sum and weighted sum of values, with a block of keys more."""
    top = tl.max(scores, axis=1)
    if not EXACT:
        top *= scale
    higher = tl.maximum(peak, top)
    # Scores of nothing but -inf count 0, and would give exp(-inf - -inf) = NaN here.
    shift = tl.where(higher == -float("inf"), 0.0, higher)
    if EXACT:
        weights = tl.exp2((scores - shift[:, None]) * scale)
        before = tl.exp2((peak - shift) * scale)
    else:
        weights = tl.exp2(scores * scale - shift[:, None])
        before = tl.exp2(peak - shift)
    total = total * before + tl.sum(weights, axis=1)
    sums = _dot(weights.to(values.dtype), values, sums * before[:, None])
    return higher, total, sums, tl.maximum(farthest, tl.abs(shift))


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
    tile = tile_for(query, key, value, shared)
    given = [described(x, x, tile) if tile.copied else x for x in (key, value)]
    _attention[(tile.programs(queries) * batches * heads,)](
        query, *given, out, *strides(query), *strides(key), *strides(value), *strides(out),
        queries, key.shape[2], heads, heads // key.shape[1], scale * LOG2E,
        **_constants(tile, dim, is_causal), num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return out


def tile_for(query: Tensor, key: Tensor, value: Tensor, shared: int) -> Tile:
    """The tile that takes them; the copy engine wants whole vectors, and rows at some distance."""
    tile = rule(query.shape[2], key.shape[2], query.shape[3], shared)
    copied = tile.copied and all(vectors(x) and strides(x)[2] > 0 for x in (key, value))
    return tile._replace(copied=copied)


def described(x: Tensor, base: Any, tile: Tile) -> TensorDescriptor:
    """A descriptor of keys or values that lie as ``x``, at the address of ``base``."""
    dim, steps = x.shape[3], strides(x)
    # What is the same for all batches or heads is there once, and has no stride that counts.
    sizes = [size if step else 1 for size, step in zip(x.shape, steps, strict=False)]
    return TensorDescriptor(
        base, [*sizes, dim], [*(step or dim for step in steps), 1], [1, 1, tile.keys, dim]
    )


def strides(x: Tensor) -> tuple[int, ...]:
    """Those of ``x`` but for the last dimension; 0 where nothing depends on one."""
    return tuple(x.stride(i) if x.shape[i] > 1 else 0 for i in range(3))


def vectors(x: Tensor) -> bool:
    """Whether the kernel loads ``x`` 16 bytes at a time, or else element by element.

    Triton is told of starts at multiples of 16 bytes and strides of 16 elements, of no others.
    """
    return x.data_ptr() % 16 == 0 and all(stride % 16 == 0 for stride in strides(x))


def _constants(tile: Tile, dim: int, is_causal: bool) -> dict[str, int]:
    return {
        "DIM": dim, "QUERIES": tile.queries, "KEYS": tile.keys, "CAUSAL": is_causal,
        "COPIED": tile.copied,
    }  # fmt: skip


def specialisations(shared: int = HOPPER) -> Iterator[Specialisation]:
    """Every tile of the rule, of either size of heads, causal and not.

    In the type of a descriptor {dtype} stands for Triton's name of its elements'.
    """
    lengths = tuple(product((FEWEST, MANY), (1, SOME, MANY)))
    for dim, is_causal in product(DIMS, (True, False)):
        for tile in dict.fromkeys(rule(*length, dim, shared) for length in lengths):
            types = {"scale": "fp32"}
            if tile.copied:
                described = f"tensordesc<{{dtype}}[1, 1, {tile.keys}, {dim}]>"
                types |= {"key_ptr": described, "value_ptr": described}
            yield Specialisation(
                _attention, _constants(tile, dim, is_causal), tile.warps, dtypes=DTYPES,
                types=types, options={"num_stages": tile.stages},
            )  # fmt: skip
