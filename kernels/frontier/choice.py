"""Top-k of a softmax, and a sample of it, by kernels: what is launched for a tensor.

moves    X once; with top-p alone once more, with top-k beyond 128 once a pass, from the L2
holds    any rows, fewer than 2^31 columns, any row stride, any first byte
source   own: kernels/frontier/topk.cu, sampling.cu, nucleus.cu
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import torch

from kernels.frontier import choice_plans as plans
from kernels.frontier.choice_plans import ChoicePlan
from kernels.frontier.frontier import NAMES, gpu, kernel, rows_of
from kernels.frontier.plans import HOPPERS
from kernels.prepared import Launch, Prepared, launch

if TYPE_CHECKING:
    from torch import Tensor


WORD64 = 2**64 - 1


class Chance(NamedTuple):
    """What a sample depends on beside the logits; ``top_p`` of 1 keeps all."""

    seed: int
    offset: int
    inverse_temperature: float
    top_k: int | None
    top_p: float


def topk_softmax(x: Tensor, k: int, whole: bool, values: Tensor, indices: Tensor) -> None:
    """The ``k`` <= 128 largest probabilities of rows ``x``, and their columns, in order.

    ``values`` and ``indices`` are contiguous (rows, k). ``whole``: divided by the row's sum.
    """
    (rows, cols, stride), device = rows_of(x), x.get_device()
    if rows == 0:
        return
    parts = plans.parts_of(rows, plans.most_top_parts(cols), gpu(device).multiprocessors)
    words = rows * parts * k
    memory = _memory(words + rows * parts, x)

    def prepare() -> Launch:
        digits = plans.column_bits(cols)
        look = _launch(
            plans.CANDIDATES[whole], x, rows * parts,
            [None, None, None, stride, cols, parts, k, digits],
        )  # fmt: skip
        end = _launch(plans.TOP[whole], x, rows, [None, None, None, None, parts, k, digits])

        def both(stream: int, x: int, found: int, sums: int, values: int, indices: int) -> None:
            look(stream, x, found, sums)
            end(stream, found, sums, values, indices)

        return both

    key = ("topk", x.dtype, rows, cols, stride, k, whole, device)
    found = memory.data_ptr()
    launch(
        device, key, prepare,
        x.data_ptr(), found, found + plans.WORD_BYTES * words, values.data_ptr(),
        indices.data_ptr(),
    )  # fmt: skip


def sample(x: Tensor, chance: Chance, out: Tensor) -> None:
    """A token of each row of logits ``x`` into ``out`` (rows,), which is contiguous."""
    (rows, cols, stride), device = rows_of(x), x.get_device()
    if rows == 0:
        return
    top_k = chance.top_k if chance.top_k is not None and chance.top_k < cols else None
    (p,) = struct.unpack("=Q", struct.pack("=d", chance.top_p))
    (inverse,) = struct.unpack("=I", struct.pack("=f", chance.inverse_temperature))
    told = (chance.seed & WORD64, chance.offset & WORD64, p, inverse)
    if top_k is None and chance.top_p == 1.0:
        group, way = rows, _race
    elif top_k is not None and top_k <= plans.MOST_TOP:
        group, way = rows, _of_top
    elif top_k is None:
        group, way = rows, _nucleus
    else:
        group, way = max(1, plans.GROUP_BYTES // (cols * x.element_size())), _narrowed
    # Rows that several passes read go in groups that the L2 holds.
    for first in range(0, rows, group):
        count = min(group, rows - first)
        part = _Part(x, first, count, cols, stride, top_k, chance.top_p < 1.0)
        if way is _nucleus:
            left = plans.nucleus_left(count, cols, part.racing, chance.top_p)
            part = part._replace(again=left > plans.MOST_LEFT)
        key = (way.__name__, x.dtype, *part[1:], device)
        memory = _memory(_words(way, part), x)
        launch(
            device, key, lambda way=way, part=part: way(part),
            x.data_ptr() + first * stride * x.element_size(),
            memory.data_ptr(), out.data_ptr() + first * out.element_size(), *told,
        )  # fmt: skip


def _memory(words: int, x: Tensor) -> Tensor:
    """For one call: its blocks write there before others read."""
    return torch.empty(words, dtype=torch.int64, device=x.device)


class _Part(NamedTuple):
    x: Tensor
    first: int
    rows: int
    cols: int
    stride: int
    top_k: int | None
    weighted: bool
    again: bool = False  # of top-p alone: in two turns

    @property
    def top_parts(self) -> int:
        """Parts of a row in which candidates are looked for."""
        return self._parts(plans.most_top_parts(self.cols), plans.BLOCKS)

    @property
    def racing(self) -> int:
        """Parts of a row that runs a race."""
        return max(self._parts(plans.most_parts(self.cols), plans.BLOCKS), self._least)

    @property
    def narrowed(self) -> int:
        """Parts of a row that passes look at, and then a race."""
        return self._parts(plans.most_parts(self.cols), plans.NARROWING[NAMES[self.x.dtype]])

    @property
    def judged(self) -> int:
        """Parts of a row that the first judge looks at."""
        return max(self._parts(plans.most_parts(self.cols), plans.JUDGING), self._least)

    @property
    def _least(self) -> int:
        return plans.least_parts(self.cols)

    def _parts(self, most: int, blocks: int) -> int:
        multiprocessors = gpu(self.x.get_device()).multiprocessors
        return plans.parts_of(self.rows, most, multiprocessors, blocks)

    def passes(self) -> list[plans.Pass]:
        dtype = NAMES[self.x.dtype]
        counted = plans.passes_of(dtype, self.cols, weighted=False) if self.top_k else []
        return counted + (plans.passes_of(dtype, self.cols, True) if self.weighted else [])


def _words(way: object, part: _Part) -> int:
    """Of 8 bytes, that a launch needs: its blocks' winners stand before what passes share."""
    if way is _of_top:
        return part.rows * part.top_parts * (part.top_k or 0)
    if way is _race:
        return part.rows * part.racing
    if way is _nucleus:
        return plans.nucleus_words(part.rows, part.racing)
    parts = part.narrowed
    return part.rows * parts + plans.memory_words(part.rows, parts, len(part.passes()))


def _sampling(part: _Part, parts: int, passes: int = 0, last: int = 0) -> Launch:
    """The race of a part's rows, from (x, memory, out, seed, offset, top-p, 1 / temperature)."""
    rows, cols, kept = part.rows, part.cols, passes > 0
    race = _launch(
        plans.SAMPLE[kept], part.x, rows * parts,
        [*[None] * 8, part.stride, cols, rows, parts, part.first, plans.weight_bits(cols),
         plans.column_bits(cols), passes, last],
        0 if kept else plans.BLOCKS,
    )  # fmt: skip
    warps = plans.THREADS // 32
    chosen = _launch(plans.CHOSEN, part.x, -(-rows // warps), [None, None, rows, parts])
    shared = rows * parts * plans.WORD_BYTES

    def both(
        stream: int, x: int, memory: int, out: int, seed: int, offset: int, p: int, t: int
    ) -> None:
        race(stream, x, memory, out, memory + shared, seed, offset, p, t)
        if parts > 1:
            chosen(stream, memory, out)

    return both


def _race(part: _Part) -> Launch:
    return _sampling(part, part.racing)


def _of_top(part: _Part) -> Launch:
    rows, parts, cols, k = part.rows, part.top_parts, part.cols, part.top_k
    digits = plans.column_bits(cols)
    look = _launch(
        plans.CANDIDATES[False], part.x, rows * parts,
        [None, None, None, part.stride, cols, parts, k, digits],
    )  # fmt: skip
    end = _launch(
        plans.SAMPLE_OF_TOP, part.x, rows,
        [*[None] * 6, parts, k, plans.weight_bits(cols), digits],
    )  # fmt: skip

    def both(stream: int, x: int, memory: int, out: int, *told: int) -> None:
        look(stream, x, memory, 0)
        end(stream, memory, out, *told)

    return both


def _nucleus(part: _Part) -> Launch:
    rows, drawn, cols = part.rows, part.racing, part.cols
    common, most = [part.stride, cols, rows, drawn], plans.most_parts(cols)
    turns = []
    for again, (draw, judge) in enumerate(plans.nucleus_turns(part.again)):
        # Among rows that are left both deal out as many blocks.
        judged = drawn if again else part.judged
        told = [judged, most, plans.weight_bits(cols), again]
        turns.append((
            _launch(draw, part.x, rows * drawn, [*[None] * 5, *common, most], plans.BLOCKS),
            _launch(judge, part.x, rows * judged, [*[None] * 7, *common, *told]),
        ))  # fmt: skip

    def all_of_them(
        stream: int, x: int, memory: int, out: int, seed: int, offset: int, p: int, t: int
    ) -> None:
        for draw, judge in turns:
            draw(stream, x, memory, seed, offset, t)
            judge(stream, x, memory, out, seed, offset, p, t)

    return all_of_them


def _narrowed(part: _Part) -> Launch:
    x, rows, parts, cols = part.x, part.rows, part.narrowed, part.cols
    passes = part.passes()
    told = [0, *(each.told() for each in passes)]
    common = [part.stride, cols, rows, parts]
    highest = _launch(plans.HIGHEST, x, rows * parts, [None, None, *common, len(passes)])
    narrowing = [part.top_k or 0, plans.weight_bits(cols), plans.column_bits(cols), len(passes)]
    looks = []
    for number in range(len(passes)):
        arguments = [*[None] * 4, *common, *narrowing, number, *told[number : number + 2]]
        looks.append(_launch(plans.NARROW, x, rows * parts, arguments))
    race = _sampling(part, parts, len(passes), told[-1])
    shared = rows * parts * plans.WORD_BYTES

    def all_of_them(
        stream: int, x: int, memory: int, out: int, seed: int, offset: int, p: int, t: int
    ) -> None:
        highest(stream, x, memory + shared)
        for look in looks:
            look(stream, x, memory + shared, p, t)
        race(stream, x, memory, out, seed, offset, p, t)

    return all_of_them


def _launch(
    plan: ChoicePlan, x: Tensor, grid: int, arguments: list[int | None], blocks: int = 0
) -> Prepared:
    """Of which a multiprocessor takes not more than ``blocks`` at once, 0 for as many as fit."""
    device = x.get_device()
    early = gpu(device).arch in HOPPERS  # the kernels await their turn
    function = kernel(plan, x.dtype, device)
    shared = plans.shared_bytes(blocks, _shared_bytes(device)) if blocks else 0
    return Prepared(function, grid, plan.threads, shared, arguments, early=early)


def _shared_bytes(device: int) -> int:
    """Of a multiprocessor."""
    return torch.cuda.get_device_properties(device).shared_memory_per_multiprocessor
