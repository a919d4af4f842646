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
_LOG2E, _LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)
_NONE = tl.constexpr(-float("inf"))
# Two 16-bit -inf in a word.
_NONE_BF16 = tl.constexpr(0xFF80FF80 - 2**32)
_NONE_FP16 = tl.constexpr(0xFC00FC00 - 2**32)
# Assembly is compiled, but not interpreted.
_COMPILED = tl.constexpr(not triton.knobs.runtime.interpret)
# The lower and the upper half of a word as floats, by PRMT.
_AGAIN_BF16 = tl.constexpr("prmt.b32 $0, $2, 0, 0x1044; prmt.b32 $1, $2, 0, 0x3244;")
_AGAIN_FP16 = tl.constexpr(
    "{.reg .b32 t; .reg .b16 l, h; prmt.b32 t, $2, 0, 0x1032; mov.b32 {l, h}, t; "
    "cvt.f32.f16 $0, h; cvt.f32.f16 $1, l;}"
)


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


def edges_of(cols: int, size: int, lanes: int) -> int:
    """The most elements between boundaries that each of ``lanes`` has of a row with edges."""
    width = VECTOR_BYTES // size
    # Lead and tail are less than a vector each, and as many as make the rest whole vectors.
    both = cols % width + (width if cols % width < width - 1 else 0)
    return -(-min(cols, both) // lanes)


def cut(vectors: int, least: int, lanes: int) -> int:
    """Of a lane's ``vectors``, the last that a row of ``least`` vectors may lack."""
    return vectors - min(vectors, least // lanes)


def registers(warps: int, programs: int) -> int:
    """Registers a thread may have where a multiprocessor is to hold ``programs`` at once."""
    return min(255, REGISTERS // (32 * warps * programs) // 8 * 8)


@triton.jit
def _power(x):
    """2^x by the hardware: 0 for results below the smallest normal number."""
    if _COMPILED:
        y = tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        y = tl.exp2(x)
    return y


@triton.jit
def reciprocal(x):
    """1 / x by the hardware, within a unit in the last place."""
    if _COMPILED:
        y = tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        y = 1.0 / x
    return y


@triton.jit
def _fused(x, factor, offset):
    """x * factor + offset, rounded once: the interpreter would round twice."""
    if _COMPILED:
        y = tl.fma(x, factor, offset)
    else:
        y = (x.to(tl.float64) * factor + offset).to(tl.float32)
    return y


@triton.jit
def relative_to(peak, kind: tl.constexpr):
    """The factor and the offset by which ``exp`` takes e^(x - peak) of rows (rows, 1).

    At 16 bits instructions are scarce, and the two make it one FMA, 2^(x factor - offset).  The
    offset is rounded: all exponentials of the row are too large by 1 / ``correction``.
    """
    factor, offset = peak, peak
    if kind != tl.float32:
        # Where elements are so large, any two that differ do so by hundreds: a smaller factor
        # serves as well, and keeps the rounding below 2^-6 of an exponent.
        factor = reciprocal(tl.maximum(tl.abs(peak) * 2.0**-18, _LN2))
        offset = peak * factor
    return factor, offset


@triton.jit
def correction(peak, of, kind: tl.constexpr):
    """What exponentials relative to ``of`` are to be multiplied by to be those to ``peak``."""
    return peak * 0.0 + 1.0 if kind == tl.float32 else _power(-_fused(peak, of[0], -of[1]))


@triton.jit
def exp(x, of, kind: tl.constexpr):
    """e^x relative to a maximum (``relative_to``) of the same rank."""
    return _power((x - of[1]) * _LOG2E if kind == tl.float32 else _fused(x, of[0], -of[1]))


@triton.jit
def vector_at(at, V: tl.constexpr):
    """The vector in which element ``at`` lies: a shift, as no element is before the first."""
    return at >> (3 if V == 8 else 2)


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
    whole = vector_at(cols - lead, V)
    if EDGES and LINES:
        skipped = vector_at(at + lead, V).to(tl.int32) & (_LINE - 1)
    return lead, whole, cols - lead - whole * V, skipped


@triton.jit
def pointers(ptr, first, LANES: tl.constexpr, WORDS: tl.constexpr):
    """To the elements of LANES vectors from ``first`` (rows, 1) on; ``ptr`` is on a boundary.

    (rows, LANES elements of a vector) of them, to WORDS of two elements of 16 bits or to elements.
    Rows as they lie in memory: of three dimensions Triton 3.6 gives a warp's threads a row each.
    """
    if WORDS:
        ptr = ptr.to(tl.pointer_type(tl.int32))
    V: tl.constexpr = 128 // ptr.dtype.element_ty.primitive_bitwidth
    return ptr + first * V + tl.arange(0, LANES * V)[None, :]


@triton.jit
def _vector(i, at, V: tl.constexpr):
    """Which vector each of pointers ``at``, to the lanes' ``i``-th vectors, belongs to."""
    return tl.arange(0, at.shape[1])[None, :] // V + i * (at.shape[1] // V)


@triton.jit
def load(at, low, high, kind: tl.constexpr, FIRST: tl.constexpr, VECTORS: tl.constexpr,
         CUT: tl.constexpr, LINES: tl.constexpr, KEEP: tl.constexpr):  # fmt: skip
    """All lanes' vectors FIRST, as a tensor, those after, ..., VECTORS - 1; -inf between rows.

    ``at`` are ``pointers`` to vectors 0; a row has vectors ``low`` to before ``high`` (rows, 1).
    It may lack some of the lanes' last CUT vectors, and with LINES of their first ones.  KEEP is
    what the caches are told of them.
    """
    NONE: tl.constexpr = (
        _NONE if kind == tl.float32 else (_NONE_BF16 if kind == tl.bfloat16 else _NONE_FP16)
    )
    xs = ()
    for i in tl.static_range(FIRST, VECTORS):
        to = at + i * at.shape[1]
        if i >= VECTORS - CUT or (LINES and i == 0):
            vector = _vector(i, at, 4)
            inside = (vector >= low) & (vector < high)
            x = tl.load(to, mask=inside, other=NONE, eviction_policy=KEEP)
        else:
            x = tl.load(to, eviction_policy=KEEP)
        xs += (tl.reshape(x, [x.shape[0], x.shape[1] // 4, 4]),)
    return xs


@triton.jit
def _column(i, lane, lead, tail, cols):
    """The column of lane's ``i``-th edge."""
    edge = lane + i * lane.shape[1]
    return tl.where(edge < lead, edge, edge + (cols - tail - lead)), edge < lead + tail


@triton.jit
def load_edges(at, lane, lead, tail, cols, EDGES: tl.constexpr):
    """Lead and tail of rows that start ``at`` (rows, 1), EDGES elements a lane, in float32.

    -inf where a row has less.
    """
    edges = ()
    for i in tl.static_range(EDGES):
        column, inside = _column(i, lane, lead, tail, cols)
        edges += (tl.load(at + column, mask=inside, other=_NONE).to(tl.float32),)
    return edges


@triton.jit
def _pairs(low, high):
    return tl.reshape(tl.join(low, high), [low.shape[0], low.shape[1], 2 * low.shape[2]])


@triton.jit
def _halves(x, kind: tl.constexpr):
    """The lower and the upper halves of words as float32."""
    if kind == tl.bfloat16:
        low = (x << 16).to(tl.float32, bitcast=True)
        high = (x & -65536).to(tl.float32, bitcast=True)
    else:
        low = x.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
        high = (x >> 16).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    return low, high


@triton.jit
def floats(x, kind: tl.constexpr):
    """A tensor that ``load`` gave as float32 (rows, lanes, elements)."""
    if kind != tl.float32:
        low, high = _halves(x, kind)
        x = _pairs(low, high)
    return x


@triton.jit
def floats_again(x, kind: tl.constexpr):
    """The same by other instructions: of the same ones the compiler would keep the results."""
    if _COMPILED and kind != tl.float32:
        ASM: tl.constexpr = _AGAIN_BF16 if kind == tl.bfloat16 else _AGAIN_FP16
        low, high = tl.inline_asm_elementwise(
            ASM, "=&f,=f,r", [x], dtype=(tl.float32, tl.float32), is_pure=True, pack=1
        )
        x = _pairs(low, high)
    else:
        x = floats(x, kind)
    return x


@triton.jit
def _larger(a, b, kind: tl.constexpr):
    """The larger of two words' upper halves, and of their lower ones."""
    ASM: tl.constexpr = "max.bf16x2 $0, $1, $2;" if kind == tl.bfloat16 else "max.f16x2 $0, $1, $2;"
    return tl.inline_asm_elementwise(ASM, "=r,r,r", [a, b], dtype=tl.int32, is_pure=True, pack=1)


@triton.jit
def _peaks(xs, kind: tl.constexpr):
    """The maximum of each lane's ``xs`` (rows, lanes); drops NaN."""
    if _COMPILED and kind != tl.float32:
        words = xs[0]
        for i in tl.static_range(1, len(xs)):
            words = _larger(words, xs[i], kind)
        a, b = tl.split(tl.reshape(words, [words.shape[0], words.shape[1], 2, 2]))
        a, b = tl.split(_larger(a, b, kind))
        low, high = _halves(_larger(a, b, kind), kind)
        peaks = tl.maximum(low, high)
    else:
        peaks = tl.max(floats(xs[0], kind), axis=2)
        for i in tl.static_range(1, len(xs)):
            peaks = tl.maximum(peaks, tl.max(floats(xs[i], kind), axis=2))
    return peaks


@triton.jit
def largest(xs, others, kind: tl.constexpr):
    """The maximum of rows (rows, 1), ``others`` (rows, lanes) included; drops NaN."""
    peaks = _peaks(xs, kind)
    for i in tl.static_range(len(others)):
        peaks = tl.maximum(peaks, others[i])
    # The sum brings NaN back.
    return tl.max(peaks, axis=1, keep_dims=True)


@triton.jit
def _exponentials(xs, of, kind: tl.constexpr, RAW: tl.constexpr):
    """exp(x - peak) of each of ``xs``, or () if RAW, and their sum by lane (rows, lanes)."""
    wide = of[0][:, :, None], of[1][:, :, None]
    e = exp(floats(xs[0], kind), wide, kind)
    sums = tl.sum(e, axis=2)
    es = () if RAW else (e,)
    for i in tl.static_range(1, len(xs)):
        e = exp(floats(xs[i], kind), wide, kind)
        sums += tl.sum(e, axis=2)
        if not RAW:
            es += (e,)
    return es, sums


@triton.jit
def by_lane(xs, kind: tl.constexpr):
    """Maximum of each lane's ``xs``, and the sum of exponentials relative to it (rows, lanes)."""
    peaks = _peaks(xs, kind)
    # Of nothing but -inf, exp(-inf - -inf) would be NaN; it adds 0 instead.
    near = tl.where(peaks == _NONE, 0.0, peaks)
    of = relative_to(near, kind)
    _, sums = _exponentials(xs, of, kind, True)
    return peaks, sums * correction(near, of, kind)


@triton.jit
def exponentials(xs, edges, others, of, kind: tl.constexpr, RAW: tl.constexpr):
    """exp(x - peak) of each of ``xs`` and of ``edges``, and their sum by row (rows, 1).

    ``others`` is the lanes' sum of those that are not among them.  RAW: the words of ``xs`` are
    exponentiated once more by ``store``, so that only they need registers while the sum is made.
    """
    es, sums = _exponentials(xs, of, kind, RAW)
    sums += others
    edge_es = ()
    for i in tl.static_range(len(edges)):
        e = exp(edges[i], of, kind)
        sums += e
        edge_es += (e,)
    return es, edge_es, tl.sum(sums, axis=1, keep_dims=True)


@triton.jit
def store(to, low, high, own, xs, es, of, scale, kind: tl.constexpr, FIRST: tl.constexpr,
          VECTORS: tl.constexpr, CUT: tl.constexpr, LINES: tl.constexpr):  # fmt: skip
    """``es`` times ``scale`` (rows, 1), to where ``load`` took ``xs`` from, of rows that are own.

    Without ``es`` the exponentials of ``xs``.
    """
    wide = of[0][:, :, None], of[1][:, :, None]
    for n in tl.static_range(FIRST, FIRST + len(xs)):
        e = es[n - FIRST] if len(es) > 0 else exp(floats_again(xs[n - FIRST], kind), wide, kind)
        inside = own
        if n >= VECTORS - CUT or (LINES and n == 0):
            vector = _vector(n, to, e.shape[2])
            inside = own & (vector >= low) & (vector < high)
        y = tl.reshape((e * scale[:, :, None]).to(kind), [to.shape[0], to.shape[1]])
        tl.store(to + n * to.shape[1], y, mask=inside)


@triton.jit
def store_edges(to, lane, lead, tail, cols, own, es, scale, kind: tl.constexpr):
    """The same for lead and tail of rows that go ``to`` (rows, 1)."""
    for i in tl.static_range(len(es)):
        column, inside = _column(i, lane, lead, tail, cols)
        tl.store(to + column, (es[i] * scale).to(kind), mask=own & inside)
