"""triton_grid: rows in parts, dealt to the programs that fit on the GPU; a part stays in registers.

moves    X once, Y once
launch   cooperative, grid = multiprocessors x programs that fit, 4 to 16 warps
holds    rows of as many parts as there are programs; any row stride, any first element
teaches  what a program waits for while others load, and that Triton can wait at all
source   shared/KERNELS.md, Dc; kernels/frontier/chunks.cu

A program takes a ticket (a part of a row), loads it, posts its (maximum, sum) in global memory, and
waits until all parts of the row are posted.  What is taken is posted without waiting for anybody,
and the cooperative launch has all programs there, so that a row whose parts fit always completes.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import triton
import triton.language as tl

from kernels.registry import ELEMENT_BYTES
from kernels.specialise import Specialisation
from kernels.triton._rows import (
    LINE,
    PLAIN,
    VECTOR_BYTES,
    correction,
    cut,
    edges_of,
    exponentials,
    largest,
    lie,
    load,
    load_edges,
    pointers,
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

HEAD = 4  # words of scratch memory before the posts: launches, tickets, programs done, none


_HEAD = tl.constexpr(HEAD)
_NONE = tl.constexpr(-float("inf"))


class Dealt(NamedTuple):
    """``vectors`` a lane, ``warps`` to a program and ``programs`` to a multiprocessor.

    ``raw``: rows of 16 bits stay as they came, two elements a register, exponentiated twice.
    """

    vectors: int
    warps: int
    programs: int
    raw: bool = False

    def deal(self, cols: int, size: int, edges: bool) -> tuple[int, int]:
        """Parts of a row of ``cols`` elements of ``size`` bytes, and the vectors of each.

        A part is whole lines, so that none but the first starts within one.
        """
        number = vectors_of(cols, size, edges)
        parts = -(-number // (32 * self.warps * self.vectors))
        share = -(-number // (parts * LINE)) * LINE
        return -(-number // share), share


@triton.jit
def _half(word):
    """The float32 in the lower half of ``word`` (int64)."""
    return word.to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def _post(to_ptr, launch, peak, total):
    """Each of the two beside the number of the launch: who sees the number sees the float."""
    which = tl.arange(0, 2)
    bits = tl.where(which == 0, peak, total).to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
    tl.atomic_xchg(to_ptr + which, bits | (launch << 32), sem="relaxed")


@triton.jit
def _gather(from_ptr, launch, parts, LANES: tl.constexpr):
    """Maximum and sum of a row once its ``parts`` are posted.

    A lane looks at one part: the warps that have none load nothing, and the L2 has fewer to serve.
    """
    part = tl.arange(0, LANES)
    at, mine = from_ptr + 2 * part, part < parts
    peaks = tl.load(at, mask=mine, other=0, volatile=True)
    sums = tl.load(at + 1, mask=mine, other=0, volatile=True)
    while tl.sum((mine & ((peaks >> 32 != launch) | (sums >> 32 != launch))).to(tl.int32)) > 0:
        peaks = tl.load(at, mask=mine, other=0, volatile=True)
        sums = tl.load(at + 1, mask=mine, other=0, volatile=True)
    peak = tl.where(mine, _half(peaks), _NONE)
    row = tl.max(peak, axis=0)
    base = tl.where(row == _NONE, 0.0, row)
    total = tl.sum(tl.where(mine, _half(sums) * tl.exp(peak - base), 0.0), axis=0)
    return base, total


@triton.jit(do_not_specialize=(*PLAIN, "parts", "share", "programs"),
            do_not_specialize_on_alignment=("x_ptr", "out_ptr"))  # fmt: skip
def _grid(x_ptr, out_ptr, scratch_ptr, x_stride, out_stride, x_shift, out_shift, rows, cols,
          parts, share, programs, LANES: tl.constexpr, VECTORS: tl.constexpr,
          CUT: tl.constexpr, EDGES: tl.constexpr, ALIKE: tl.constexpr,
          RAW: tl.constexpr):  # fmt: skip
    kind: tl.constexpr = x_ptr.dtype.element_ty
    V: tl.constexpr = 128 // kind.primitive_bitwidth
    LINES: tl.constexpr = EDGES > 0
    x_ptr = tl.multiple_of(x_ptr - x_shift, 16)
    out_ptr = tl.multiple_of(out_ptr - out_shift, 16)
    lane = tl.arange(0, LANES)[None, :]
    posts_ptr = scratch_ptr + _HEAD
    launch = (tl.load(scratch_ptr, volatile=True) + 1) & 0x7FFFFFFF
    ticket = tl.atomic_add(scratch_ptr + 1, 1, sem="relaxed").to(tl.int32)
    while ticket < rows * parts:
        row = ticket // parts
        part = ticket - row * parts
        # One row, as tensors of (1, 1).
        x_at = tl.full([1, 1], row, tl.int64) * x_stride + x_shift
        out_at = tl.full([1, 1], row, tl.int64) * out_stride + out_shift
        lead, whole, tail, skipped = split(x_at, cols, V, LINES, LINES)
        first = part * share - skipped
        number = vector_at(x_at + lead, V) + first
        low = tl.maximum(-first, 0)
        high = tl.minimum(whole - first, share)
        # The edges go with the first part.
        own_lead = tl.where(part == 0, lead, 0)
        own_tail = tl.where(part == 0, tail, 0)

        xs = load(pointers(x_ptr, number, LANES, kind != tl.float32), low, high, kind, 0,
                  VECTORS, CUT, LINES, "")  # fmt: skip
        edges = load_edges(x_ptr + x_at, lane, own_lead, own_tail, cols, EDGES)
        peak = largest(xs, edges, kind)
        # Of a part of nothing but -inf, exp(-inf - -inf) would be NaN; it adds 0 instead.
        near = tl.where(peak == _NONE, 0.0, peak)
        of = relative_to(near, kind)
        es, edge_es, total = exponentials(xs, edges, 0.0, of, kind, RAW)
        right = correction(near, of, kind)
        _post(posts_ptr + 2 * ticket, launch, tl.max(peak), tl.max(total * right))
        base, total = _gather(posts_ptr + 2 * row * parts, launch, parts, LANES)
        scale = right * tl.exp(near - base) / total
        if ALIKE:
            to = pointers(out_ptr, vector_at(out_at + lead, V) + first, LANES, False)
        else:
            to = pointers(out_ptr, number, LANES, False) + (out_at - x_at)
        own = tl.full([1, 1], 1, tl.int1)
        store(to, low, high, own, xs, es, of, scale, kind, 0, VECTORS, CUT, LINES)
        store_edges(out_ptr + out_at, lane, own_lead, own_tail, cols, own, edge_es, scale, kind)
        ticket = tl.atomic_add(scratch_ptr + 1, 1, sem="relaxed").to(tl.int32)
    if tl.atomic_add(scratch_ptr + 2, 1) == programs - 1:  # the last: ready for the next launch
        tl.store(scratch_ptr + 1, 0)
        tl.store(scratch_ptr + 2, 0)
        tl.store(scratch_ptr, launch)


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    return run(x, out, rule(x.element_size()))


def run(x: Tensor, out: Tensor, dealt: Dealt) -> Tensor:
    """The same with the parts of ``dealt``; ValueError where a row has more than fit at once."""
    rows, cols = x.shape
    if rows == 0:
        return out
    at, size = lie(x, out), x.element_size()
    parts, share = dealt.deal(cols, size, at.edges)
    programs = multiprocessors(x) * dealt.programs
    if parts > min(programs, 32 * dealt.warps):
        raise ValueError(f"a row of {cols} columns has {parts} parts: {programs} programs run")
    launch(x, out, scratch(x, rows * parts), dealt, parts, share, min(programs, rows * parts))
    return out


def launch(
    x: Tensor, out: Tensor, posts: Tensor, dealt: Dealt, parts: int, share: int, programs: int,
    grid: int | None = None,
) -> None:  # fmt: skip
    """Launch ``grid`` of the ``programs`` that deal the rows out; by default all of them."""
    rows, cols = x.shape
    at = lie(x, out)
    _grid[(grid or programs,)](
        x, out, posts, x.stride(0), out.stride(0), at.x_shift, at.out_shift, rows, cols,
        parts, share, programs,
        **_constants(dealt, cols, x.element_size(), at.edges, at.alike),
        num_warps=dealt.warps, maxnreg=registers(dealt.warps, dealt.programs),
        launch_cooperative_grid=True,
    )  # fmt: skip


@lru_cache(4096)
def _constants(dealt: Dealt, cols: int, size: int, edges: bool, alike: bool) -> dict[str, int]:
    lanes, width = 32 * dealt.warps, VECTOR_BYTES // size
    parts, share = dealt.deal(cols, size, edges)
    vectors = -(-share // lanes)
    least = (cols - (width - 1 if edges else 0)) // width - (parts - 1) * share
    return {
        "LANES": lanes, "VECTORS": vectors, "CUT": cut(vectors, max(0, min(share, least)), lanes),
        "EDGES": edges_of(cols, size, lanes) if edges else 0,
        "ALIKE": alike, "RAW": dealt.raw,
    }  # fmt: skip


@cache
def _count(device: int) -> int:
    import torch

    return torch.cuda.get_device_properties(device).multi_processor_count


def multiprocessors(x: Tensor) -> int:
    """Of the GPU that ``x`` is on; 0 in the interpreter, whose programs cannot wait."""
    return _count(x.device.index) if x.is_cuda else 0


def scratch(x: Tensor, tickets: int) -> Tensor:
    """Where launches on the current stream, or of the graph being captured, post their tickets.

    A launch leaves it ready for the next.  Two graphs may be replayed at once: each has its own,
    cleared by each replay.
    """
    import torch
    from cuda.bindings import driver

    stream = torch.cuda.current_stream(x.device).cuda_stream
    _, status, number, *_ = driver.cuStreamGetCaptureInfo(stream)
    active = driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    capture = int(number) if status == active else 0
    # Few sizes serve all shapes.
    return _scratch(triton.next_power_of_2(tickets), x.device.index, stream, capture)


# One that is dropped goes back to its stream's memory, or its graph's, in that stream's order.
@lru_cache(64)
def _scratch(tickets: int, device: int, stream: int, capture: int) -> Tensor:
    import torch

    return torch.zeros(HEAD + 2 * tickets, dtype=torch.int64, device=f"cuda:{device}")


def rule(size: int) -> Dealt:
    """What serves elements of ``size`` bytes where nothing was measured."""
    return Dealt(16, 8, 2, raw=size == 2)


def specialisations() -> Iterator[Specialisation]:
    """The rule's for rows of 131,072 columns and, with edges, of one more."""
    for size in (4, 2):
        yield from (specialise(rule(size), 131_072 + e, size, bool(e)) for e in (0, 1))


def specialise(
    dealt: Dealt, cols: int, size: int, edges: bool, alike: bool = True
) -> Specialisation:
    """The compilation that ``run`` takes for rows of ``cols`` elements of ``size`` bytes."""
    constants = _constants(dealt, cols, size, edges, alike)
    held = constants["LANES"] * constants["VECTORS"]
    return Specialisation(
        _grid, constants, dealt.warps, held * VECTOR_BYTES // size,
        dtypes=tuple(d for d, n in ELEMENT_BYTES.items() if n == size), plain=True,
        types={"scratch_ptr": "*i64"},
        options={
            "maxnreg": registers(dealt.warps, dealt.programs), "launch_cooperative_grid": True
        },
    )  # fmt: skip
