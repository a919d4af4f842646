"""triton_held: rows in registers, a power of two of lanes to each and any number of vectors a lane.

moves    X once, Y once
launch   programs of 1 to 32 warps; rows short of a warp share one, wide rows take all warps
holds    cols <= 57,344, in steps of a vector a lane; any row stride, any first element
teaches  vectors for rows that start anywhere, and padding to a vector a lane, not a power of two
source   own; shared/KERNELS.md, W and B
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import triton
import triton.language as tl

from kernels.registry import ELEMENT_BYTES
from kernels.specialise import Specialisation
from kernels.triton._rows import (
    PLAIN,
    VECTOR_BYTES,
    exponentials,
    largest,
    lie,
    load,
    load_edges,
    pointers,
    registers,
    split,
    store,
    store_edges,
    vectors_of,
)

if TYPE_CHECKING:  # compiling needs no torch
    from collections.abc import Iterator

    from torch import Tensor


OVERHEAD = 12  # registers that a lane has beside its share of the row


class Held(NamedTuple):
    """``lanes`` to a row, ``rows`` and ``warps`` to a program, ``programs`` to a multiprocessor.

    ``lanes`` and ``rows`` are powers of two.  ``raw``: rows of 16 bits stay as they came, two
    elements a register, and are exponentiated twice.
    """

    lanes: int
    rows: int
    warps: int
    programs: int = 1
    raw: bool = False

    def vectors(self, cols: int, size: int, edges: bool) -> int:
        """Vectors of a row of ``cols`` elements of ``size`` bytes that a lane holds."""
        return -(-vectors_of(cols, size, edges, self.rows == 1) // self.lanes)

    def room(self, size: int) -> int:
        """Vectors, of elements of ``size`` bytes, that a lane has registers for."""
        words = 4 if size == 4 or self.raw else 8
        return (registers(self.warps, self.programs) - OVERHEAD) // words


@triton.jit(do_not_specialize=PLAIN, do_not_specialize_on_alignment=("x_ptr", "out_ptr"))
def _held(x_ptr, out_ptr, x_stride, out_stride, x_shift, out_shift, rows, cols,
          ROWS: tl.constexpr, LANES: tl.constexpr, VECTORS: tl.constexpr,
          EDGES: tl.constexpr, ALIKE: tl.constexpr, RAW: tl.constexpr):  # fmt: skip
    kind: tl.constexpr = x_ptr.dtype.element_ty
    V: tl.constexpr = 128 // kind.primitive_bitwidth
    x_ptr = tl.multiple_of(x_ptr - x_shift, 16)
    out_ptr = tl.multiple_of(out_ptr - out_shift, 16)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    lane = tl.arange(0, LANES)[None, :]
    x_at = row.to(tl.int64) * x_stride + x_shift
    out_at = row.to(tl.int64) * out_stride + out_shift
    lead, whole, tail, skipped = split(x_at, cols, V, EDGES, ROWS == 1)
    number = (x_at + lead) // V - skipped + lane
    # Rows that the last program does not have are empty.
    end = tl.where(row < rows, skipped + whole, 0)
    own_lead = tl.where(row < rows, lead, 0)
    own_tail = tl.where(row < rows, tail, 0)

    xs = load(pointers(x_ptr, number, RAW), lane, skipped, end, kind, VECTORS)
    edges = load_edges(x_ptr + x_at, lane, own_lead, own_tail, cols, EDGES)
    peak = largest(xs, edges, kind)
    es, edge_es, total = exponentials(xs, edges, peak, kind)
    if ALIKE:
        to = pointers(out_ptr, (out_at + lead) // V - skipped + lane, False)
    else:
        to = pointers(out_ptr, number, False) + (out_at - x_at)[:, :, None]
    store(to, lane, skipped, end, xs, es, peak, 1.0 / total, kind)
    store_edges(out_ptr + out_at, lane, own_lead, own_tail, cols, edge_es, 1.0 / total, kind)


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    return run(x, out, rule(x.shape[1], x.element_size(), lie(x, out).edges))


def run(x: Tensor, out: Tensor, held: Held) -> Tensor:
    """The same with the lanes and warps of ``held``."""
    rows, cols = x.shape
    at = lie(x, out)
    _held[(-(-rows // held.rows),)](
        x, out, x.stride(0), out.stride(0), at.x_shift, at.out_shift, rows, cols,
        ROWS=held.rows, LANES=held.lanes,
        VECTORS=held.vectors(cols, x.element_size(), at.edges),
        EDGES=at.edges, ALIKE=at.alike, RAW=held.raw,
        num_warps=held.warps, maxnreg=registers(held.warps, held.programs),
    )  # fmt: skip
    return out


def rule(cols: int, size: int, edges: bool) -> Held:
    """What serves rows of ``cols`` elements of ``size`` bytes where nothing was measured.

    A few vectors a lane while a warp holds several rows; then as few warps as hold 8 a lane.
    """
    number = vectors_of(cols, size, edges)
    least = VECTOR_BYTES // size if edges else 1  # a lane for each element of an edge
    if number <= 128:
        lanes = max(least, min(32, triton.next_power_of_2(-(-number // 2))))
        return Held(lanes, max(1, 128 // lanes) * (1 if number > 64 else 2), 4)
    warps = next((w for w in (4, 8, 16) if number <= 8 * 32 * w), 16)
    raw = size == 2 and number > 6 * 32 * warps
    two = Held(32 * warps, 1, warps, 2, raw)
    return two if two.vectors(cols, size, edges) <= two.room(size) else two._replace(programs=1)


def specialisations() -> Iterator[Specialisation]:
    """Rows of 64, 1024, 8192, 32,768 and, with edges, 50,257 columns of either size."""
    for cols, edges in ((64, 0), (63, 1), (1024, 0), (8192, 0), (32_768, 0), (50_257, 1)):
        for size in (4, 2):
            yield specialise(rule(cols, size, bool(edges)), cols, size, bool(edges))


def specialise(held: Held, cols: int, size: int, edges: bool, alike: bool = True) -> Specialisation:
    """The compilation that ``run`` takes for rows of ``cols`` elements of ``size`` bytes."""
    number = held.vectors(cols, size, edges)
    constants = {"ROWS": held.rows, "LANES": held.lanes, "VECTORS": number, "EDGES": edges,
                 "ALIKE": alike, "RAW": held.raw}  # fmt: skip
    return Specialisation(
        _held, constants, held.warps, held.lanes * number * VECTOR_BYTES // size,
        dtypes=tuple(d for d, n in ELEMENT_BYTES.items() if n == size), plain=True,
        options={"maxnreg": registers(held.warps, held.programs)},
    )  # fmt: skip
