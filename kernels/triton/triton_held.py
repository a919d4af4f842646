"""triton_held: rows in registers, a power of two of lanes to each and any number of vectors a lane.

moves    X once, Y once; of rows too wide for the registers a part of X again, from the L2
launch   programs of 1 to 32 warps; rows short of a warp share one, wide rows take all warps
holds    cols <= 57,344, or more in part; any row stride, any first element
teaches  vectors for rows that start anywhere, and padding to a vector a lane, not a power of two
source   own; shared/KERNELS.md, W and B
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import triton
import triton.language as tl

from kernels.registry import ELEMENT_BYTES
from kernels.specialise import Specialisation
from kernels.triton._rows import (
    PLAIN,
    VECTOR_BYTES,
    by_lane,
    cut,
    edges_of,
    exp,
    exponentials,
    largest,
    lie,
    load,
    load_edges,
    pointers,
    reciprocal,
    registers,
    relative_to,
    split,
    store,
    store_edges,
    vector_at,
    vectors_of,
)

if TYPE_CHECKING:  # compiling needs no torch
    from collections.abc import Iterator

    from torch import Tensor


_AT_ONCE = tl.constexpr(6)  # of the vectors that a lane reads twice
OVERHEAD = 12  # registers that a lane has beside its share of the row


class Held(NamedTuple):
    """``lanes`` to a row, ``rows`` and ``warps`` to a program, ``programs`` to a multiprocessor.

    ``lanes`` and ``rows`` are powers of two.  ``twice``: vectors a lane that are not held,
    but read again, when they are in the L2.  ``raw``: rows of 16 bits stay as they came, two
    elements a register, and are exponentiated twice.
    """

    lanes: int
    rows: int
    warps: int
    programs: int = 1
    twice: int = 0
    raw: bool = False

    def vectors(self, cols: int, size: int, edges: bool) -> int:
        """Vectors of a row of ``cols`` elements of ``size`` bytes that a lane takes."""
        return -(-vectors_of(cols, size, edges, self.rows == 1) // self.lanes)

    def room(self, size: int) -> int:
        """Vectors, of elements of ``size`` bytes, that a lane has registers for."""
        words = 4 if size == 4 or self.raw else 8
        return self.twice + (registers(self.warps, self.programs) - OVERHEAD) // words


@triton.jit(do_not_specialize=PLAIN, do_not_specialize_on_alignment=("x_ptr", "out_ptr"))
def _held(x_ptr, out_ptr, x_stride, out_stride, x_shift, out_shift, rows, cols,
          ROWS: tl.constexpr, LANES: tl.constexpr, VECTORS: tl.constexpr, CUT: tl.constexpr,
          TWICE: tl.constexpr, EDGES: tl.constexpr, ALIKE: tl.constexpr,
          RAW: tl.constexpr):  # fmt: skip
    kind: tl.constexpr = x_ptr.dtype.element_ty
    V: tl.constexpr = 128 // kind.primitive_bitwidth
    LINES: tl.constexpr = EDGES > 0 and ROWS == 1
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    own = row < rows
    # The last program reads its last row again in place of those that there are not.
    row = tl.minimum(row, rows - 1).to(tl.int64)
    lane = tl.arange(0, LANES)[None, :]
    x_at = row * x_stride
    out_at = row * out_stride
    if EDGES > 0:
        x_at += x_shift
        out_at += out_shift
    x_ptr = tl.multiple_of(x_ptr - x_shift, 16)
    out_ptr = tl.multiple_of(out_ptr - out_shift, 16)
    lead, whole, tail, skipped = split(x_at, cols, V, EDGES > 0, LINES)
    number = vector_at(x_at + lead, V) - skipped
    end = skipped + whole

    at = pointers(x_ptr, number, LANES, kind != tl.float32)
    edges = load_edges(x_ptr + x_at, lane, lead, tail, cols, EDGES)
    # What is read twice comes first, while the registers are free.
    peaks, sums = (), ()
    for i in tl.static_range(0, TWICE, _AT_ONCE):
        early = load(
            at, skipped, end, kind, i, TWICE if TWICE - i < _AT_ONCE else i + _AT_ONCE, 0,
            LINES, "evict_last",
        )  # fmt: skip
        lane_peaks, lane_sums = by_lane(early, kind)
        peaks += (lane_peaks,)
        sums += (lane_sums,)
    xs = load(at, skipped, end, kind, TWICE, VECTORS, CUT, LINES, "")
    peak = largest(xs, edges + peaks, kind)
    of = relative_to(peak, kind)
    others = 0.0
    for i in tl.static_range(len(sums)):
        others += sums[i] * exp(peaks[i], of, kind)
    es, edge_es, total = exponentials(xs, edges, others, of, kind, RAW)
    scale = reciprocal(total)
    if ALIKE:
        to = pointers(out_ptr, vector_at(out_at + lead, V) - skipped, LANES, False)
    else:
        to = pointers(out_ptr, number, LANES, False) + (out_at - x_at)
    for i in tl.static_range(TWICE):
        late = load(at, skipped, end, kind, i, i + 1, 0, LINES, "evict_first")
        store(to, skipped, end, own, late, (), of, scale, kind, i, VECTORS, 0, LINES)
    store(to, skipped, end, own, xs, es, of, scale, kind, TWICE, VECTORS, CUT, LINES)
    store_edges(out_ptr + out_at, lane, lead, tail, cols, own, edge_es, scale, kind)


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    return run(x, out, rule(x.shape[1], x.element_size(), lie(x, out).edges))


def run(x: Tensor, out: Tensor, held: Held) -> Tensor:
    """The same with the lanes and warps of ``held``."""
    rows, cols = x.shape
    at = lie(x, out)
    _held[(-(-rows // held.rows),)](
        x, out, x.stride(0), out.stride(0), at.x_shift, at.out_shift, rows, cols,
        **_constants(held, cols, x.element_size(), at.edges, at.alike),
        num_warps=held.warps, maxnreg=registers(held.warps, held.programs),
    )  # fmt: skip
    return out


@lru_cache(4096)
def _constants(held: Held, cols: int, size: int, edges: bool, alike: bool) -> dict[str, int]:
    vectors = held.vectors(cols, size, edges)
    width = VECTOR_BYTES // size
    least = (cols - (width - 1 if edges else 0)) // width
    return {
        "ROWS": held.rows, "LANES": held.lanes, "VECTORS": vectors,
        "CUT": cut(vectors, least, held.lanes), "TWICE": held.twice,
        "EDGES": edges_of(cols, size, held.lanes) if edges else 0,
        "ALIKE": alike, "RAW": held.raw,
    }  # fmt: skip


def rule(cols: int, size: int, edges: bool) -> Held:
    """What serves rows of ``cols`` elements of ``size`` bytes where nothing was measured.

    A few vectors a lane while a warp holds several rows; then as few warps as hold 8 a lane.
    """
    number = vectors_of(cols, size, edges, lines=False)
    if number <= 128:
        lanes = min(32, triton.next_power_of_2(-(-number // 2)))
        return Held(lanes, 128 // lanes * (1 if number > 64 else 2), 4)
    number = vectors_of(cols, size, edges)
    warps = next((w for w in (4, 8, 16) if number <= 8 * 32 * w), 16)
    raw = size == 2 and number > 6 * 32 * warps
    two = Held(32 * warps, 1, warps, 2, raw=raw)
    return two if two.vectors(cols, size, edges) <= two.room(size) else two._replace(programs=1)


def specialisations() -> Iterator[Specialisation]:
    """Rows of 64, 1024, 8192, 32,768 and, with edges, 50,257 columns of either size."""
    for cols, edges in ((64, 0), (63, 1), (1024, 0), (8192, 0), (32_768, 0), (50_257, 1)):
        for size in (4, 2):
            yield specialise(rule(cols, size, bool(edges)), cols, size, bool(edges))


def specialise(held: Held, cols: int, size: int, edges: bool, alike: bool = True) -> Specialisation:
    """The compilation that ``run`` takes for rows of ``cols`` elements of ``size`` bytes."""
    constants = _constants(held, cols, size, edges, alike)
    return Specialisation(
        _held, constants, held.warps, held.lanes * constants["VECTORS"] * VECTOR_BYTES // size,
        dtypes=tuple(d for d, n in ELEMENT_BYTES.items() if n == size), plain=True,
        options={"maxnreg": registers(held.warps, held.programs)},
    )  # fmt: skip
