"""A row as Triton's kernels for all widths see it: vectors of 16 bytes, and its edges.

A row is the elements before its first 16-byte boundary (the lead), whole vectors, and the elements
after its last boundary (the tail).  Vectors are loaded and stored whole or not at all, which Triton
can prove, so that they move 16 bytes at a time wherever a row starts; lead and tail go an element
a lane beside them.  Nothing outside the row is read or written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import triton
import triton.language as tl

if TYPE_CHECKING:  # compiling needs no torch
    from torch import Tensor

VECTOR_BYTES = 16
LINE = 8  # vectors of a line of memory
REGISTERS = 65_536  # of a multiprocessor
# Arguments whose values say nothing to the compiler: no compilation for a multiple of 16.
PLAIN = ("x_stride", "out_stride", "x_shift", "out_shift", "rows", "cols")

_LINE = tl.constexpr(LINE)
_LOG2E = tl.constexpr(1.4426950408889634)
_NONE = tl.constexpr(-float("inf"))
# Two 16-bit -inf in a word.
_NONE_BF16 = tl.constexpr(0xFF80FF80 - 2**32)
_NONE_FP16 = tl.constexpr(0xFC00FC00 - 2**32)


class Rows(NamedTuple):
    """How rows of two tensors lie: elements of ``x`` and ``out`` past a 16-byte boundary, and more.

    ``edges``: not all rows are whole vectors.  ``alike``: a row of ``out`` lies between its
    boundaries as that of ``x`` does, so that both move as vectors.
    """

    x_shift: int
    out_shift: int
    edges: bool
    alike: bool


def lie(x: Tensor, out: Tensor) -> Rows:
    """Of ``x`` and ``out``, (rows, cols) tensors of one dtype with unit column stride."""
    rows, cols = x.shape
    size = x.element_size()
    # One row has no stride that says anything.
    x_stride, out_stride = (x.stride(0) * size, out.stride(0) * size) if rows > 1 else (0, 0)
    x_at, out_at = x.data_ptr() % VECTOR_BYTES, out.data_ptr() % VECTOR_BYTES
    edges = (x_at | out_at | x_stride | out_stride | cols * size) % VECTOR_BYTES != 0
    alike = x_at == out_at and (x_stride - out_stride) % VECTOR_BYTES == 0
    return Rows(x_at // size, out_at // size, edges, alike)


def vectors_of(cols: int, size: int, edges: bool, lines: bool = True) -> int:
    """The most vectors of a row of ``cols`` elements of ``size`` bytes.

    With ``edges`` and ``lines`` they are counted from the line in which the first one lies.
    """
    return max(1, cols * size // VECTOR_BYTES) + (LINE - 1 if edges and lines else 0)


def registers(warps: int, programs: int) -> int:
    """Registers a thread may have where a multiprocessor is to hold ``programs`` at once."""
    return min(255, REGISTERS // (32 * warps * programs) // 8 * 8)


@triton.jit
def exp(x, kind: tl.constexpr):
    """e^x; results below the smallest normal number may be 0.

    At 16 bits instructions are scarce, and exp2 takes three less an element; at 32 registers are,
    and with exp the assembler spills less (results/build/*/resources.csv).
    """
    return tl.exp(x) if kind == tl.float32 else tl.exp2(x * _LOG2E)


@triton.jit
def split(at, cols, V: tl.constexpr, EDGES: tl.constexpr, LINES: tl.constexpr):
    """Lead (elements), whole vectors and tail (elements) of rows at element ``at``; and skipped.

    With LINES vectors are counted from the line of memory in which the first one lies, so that
    warps ask for whole lines; those before the first are the skipped ones.
    """
    lead = at.to(tl.int32) * 0
    skipped = lead
    if EDGES:
        lead = tl.minimum(-at.to(tl.int32) & (V - 1), cols)
    whole = (cols - lead) // V
    if EDGES and LINES:
        skipped = ((at + lead) // V % _LINE).to(tl.int32)
    return lead, whole, cols - lead - whole * V, skipped


@triton.jit
def pointers(ptr, number, RAW: tl.constexpr):
    """To the elements of vectors ``number`` (rows, lanes) from ``ptr``, which is on a boundary.

    (rows, lanes, elements) of them, or (rows, lanes, 4) to words if RAW.
    """
    if RAW:
        ptr = ptr.to(tl.pointer_type(tl.int32))
    V: tl.constexpr = 128 // ptr.dtype.element_ty.primitive_bitwidth
    return ptr + (number * V)[:, :, None] + tl.arange(0, V)[None, None, :]


@triton.jit
def load(at, lane, low, high, kind: tl.constexpr, VECTORS: tl.constexpr):
    """VECTORS tensors: all lanes' first vectors, all lanes' second ones, ...; -inf between rows.

    ``at`` are ``pointers`` to the first; a row has vectors ``low`` to before ``high`` (rows, 1).
    """
    NONE: tl.constexpr = (
        _NONE
        if at.dtype.element_ty == kind
        else (_NONE_BF16 if kind == tl.bfloat16 else _NONE_FP16)
    )
    xs = ()
    for i in tl.static_range(VECTORS):
        vector = lane + i * at.shape[1]
        inside = (vector >= low) & (vector < high)
        x = tl.load(at + i * at.shape[1] * at.shape[2], mask=inside[:, :, None], other=NONE)
        xs += (x,)
    return xs


@triton.jit
def load_edges(at, lane, lead, tail, cols, EDGES: tl.constexpr):
    """Lead and tail of rows that start ``at`` (rows, 1), an element a lane, in float32; () if none.

    -inf where a row has less.
    """
    edges = ()
    if EDGES:
        x_lead = tl.load(at + lane, mask=lane < lead, other=_NONE).to(tl.float32)
        x_tail = tl.load(at + (cols - tail) + lane, mask=lane < tail, other=_NONE).to(tl.float32)
        edges = (x_lead, x_tail)
    return edges


@triton.jit
def floats(x, kind: tl.constexpr):
    """A tensor that ``load`` gave as float32 (rows, lanes, elements)."""
    if x.dtype == tl.int32:
        if kind == tl.bfloat16:
            low = (x << 16).to(tl.float32, bitcast=True)
            high = (x & -65536).to(tl.float32, bitcast=True)
        else:
            low = x.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
            high = (x >> 16).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
        x = tl.reshape(tl.join(low, high), [x.shape[0], x.shape[1], 8])
    return x.to(tl.float32)


@triton.jit
def again(x, known):
    """``x``; words are new to the compiler, which would keep the floats that it made of the old.

    ``known`` (rows, 1) is a number of the row, whose results are NaN if it is.
    """
    # All bits of a word, or the compiler sees that one of its halves is still the same.
    return x ^ -(known != known).to(tl.int32)[:, :, None] if x.dtype == tl.int32 else x


@triton.jit
def largest(xs, edges, kind: tl.constexpr):
    """The maximum of rows (rows, 1); drops NaN, which the sum brings back."""
    peaks = tl.max(floats(xs[0], kind), axis=2)
    for i in tl.static_range(1, len(xs)):
        peaks = tl.maximum(peaks, tl.max(floats(xs[i], kind), axis=2))
    for i in tl.static_range(len(edges)):
        peaks = tl.maximum(peaks, edges[i])
    return tl.max(peaks, axis=1, keep_dims=True)


@triton.jit
def exponentials(xs, edges, peak, kind: tl.constexpr):
    """exp(x - peak) of each of ``xs`` and of ``edges``, and their sum by row (rows, 1)."""
    es = (exp(floats(again(xs[0], peak), kind) - peak[:, :, None], kind),)
    sums = tl.sum(es[0], axis=2)
    for i in tl.static_range(1, len(xs)):
        e = exp(floats(again(xs[i], peak), kind) - peak[:, :, None], kind)
        sums += tl.sum(e, axis=2)
        es += (e,)
    edge_es = ()
    for i in tl.static_range(len(edges)):
        e = exp(edges[i] - peak, kind)
        sums += e
        edge_es += (e,)
    return es, edge_es, tl.sum(sums, axis=1, keep_dims=True)


@triton.jit
def store(to, lane, low, high, xs, es, peak, scale, kind: tl.constexpr):
    """``es`` times ``scale`` (rows, 1), to where ``load`` took ``xs`` from.

    Words are exponentiated once more, so that only they need registers while the sum is made.
    """
    for i in tl.static_range(len(xs)):
        e = es[i]
        if xs[i].dtype == tl.int32:
            e = exp(floats(again(xs[i], scale), kind) - peak[:, :, None], kind)
        vector = lane + i * to.shape[1]
        inside = (vector >= low) & (vector < high)
        y = (e * scale[:, :, None]).to(kind)
        tl.store(to + i * to.shape[1] * to.shape[2], y, mask=inside[:, :, None])


@triton.jit
def store_edges(to, lane, lead, tail, cols, es, scale, kind: tl.constexpr):
    """The same for lead and tail of rows that go ``to`` (rows, 1)."""
    if len(es) == 2:
        tl.store(to + lane, (es[0] * scale).to(kind), mask=lane < lead)
        tl.store(to + (cols - tail) + lane, (es[1] * scale).to(kind), mask=lane < tail)
