"""Softmax along a dimension that is not the last: how a tensor lies, and what is launched for it.

Imports neither torch nor CUDA: the build reads it on every machine. What was fastest at a tensor
like this one on this GPU (``python -m experiments.tune_columns``), or a rule where none was
measured. The rule weighs

sectors    Memory is read by sectors of 32 bytes, four to a line. A block goes down a strip of
           adjacent places; where it is a line wide, each row of the strip is a line. Strips are
           narrowed to half a line and to a sector only where the registers of few blocks would not
           hold a line of every row, or where there would be fewer blocks than multiprocessors.
registers  A thread holds 32 words of its rows as they came: with as many for sums and maxima, 1024
           threads fit a multiprocessor.
bytes      So 128 KB of a multiprocessor's input are on their way at once at most, more than a copy
           needs, and there are two blocks of 512 threads: one loads while the other is at its
           barriers.
exchange   Blocks of a cluster each have a share of the rows. A cluster of 16 takes a whole part of
           the GPU, so that narrower strips go before it. Too few blocks that each have much
           to load take longer than a second read by all multiprocessors does.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from math import isqrt, log2
from pathlib import Path
from typing import NamedTuple

from kernels.frontier import select
from kernels.frontier.columns_layout import Columns
from kernels.frontier.plans import HERE, HOPPERS, LINE, VECTOR_BYTES, Plan, Shape
from kernels.registry import ELEMENT_BYTES

REGIMES = ("held", "partials", "results", "bands")
SECTOR_BYTES, LINE_BYTES = 32, LINE * VECTOR_BYTES
# Of its rows in the registers of a thread: words, and units, of which each has an address too.
WORDS, UNITS = 32, 24
TOGETHER = 16  # words that a thread of a second look has on their way at once (columns_strip.cuh)
THREADS, WIDEST = 512, 1024
CLUSTER, LARGEST_CLUSTER = 8, 16  # blocks
LEAST_ROWS = 64  # of a block of a cluster: of fewer an exchange is not worth it
ALONE = 128  # threads of a block each of which has all rows of its places
LITTLE = 4 * 1024  # bytes of a block, of which a multiprocessor has 32 at most
MUCH = 16 * 1024  # bytes of a block that take longer than a second kernel's launch
WAVES, RESIDENT = 4, 2  # of the blocks of two looks; of these blocks on a multiprocessor
PAIRS = 8  # bytes of rows at least for one of pairs
FOLDER = "columns"  # of select.TABLES
# Of a thread's rows in words, and of staged ones in bytes of a multiprocessor, at most.
MOST_WORDS, MOST_STAGED = 64, 200 * 1024
# Of two looks in one launch: pairs that are merged at once (columns_bands.cu), and places whose
# pairs a stream keeps memory for.
MERGED, MOST_POSTED = 32, 2**18


@dataclass(frozen=True)
class ColumnsPlan(Plan):
    """A kernel: its shape's sizes are (bytes of a unit, units of a strip, threads, blocks).

    Of ``held`` a fifth says how many blocks a multiprocessor has at least, and a sixth how many
    eighths of a thread's units lie in shared memory, which are ``staged``.  A seventh, if there is
    one, says of how many eighths of a thread's places of 16 bits a ``polynomial`` is exponential.

    A shape of ``bands`` has four more: how often a block's threads load in a piece, how many MB of
    input a band has, how many are looked at beside it before it is written, and whether its last
    pieces are written first.
    """

    log: bool = False
    staged: int = 0
    polynomial: int = 0

    @property
    def file(self) -> Path:
        return HERE / f"columns_{self.shape.regime}.cu"

    def expression(self, c_type: str) -> str:
        """The kernel as C++ names it, for elements of ``c_type``."""
        unit, lanes, threads, blocks, *more = self.shape.sizes
        words = [c_type, unit, lanes, threads]
        if self.shape.regime == "held":
            words += [self.held, self.staged, blocks, more[0], self.polynomial]
        if self.shape.regime != "partials":
            words += [str(self.log).lower()]
        return f"softmax_columns<{', '.join(map(str, words))}>"

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.shape.sizes[2]

    @property
    def label(self) -> str:
        """For people."""
        staged = f" staged={self.staged}" * (self.staged > 0)
        return f"columns {super().label}{staged}{' log' * self.log}"

    @property
    def shared_bytes(self) -> int:
        """Of shared memory that a block's staged units lie in."""
        return self.threads * self.staged * VECTOR_BYTES

    def cols_held(self, size: int) -> int:
        """Rows of a strip that its threads hold; 0 if they do not."""
        _, lanes, threads, blocks = self.shape.sizes[:4]
        if self.shape.regime != "held":
            return 0
        return threads // lanes * (self.held + self.staged) * blocks


@dataclass(frozen=True)
class Choice:
    """What serves a tensor: one kernel, or two that split the rows.

    ``pitch`` units are numbered to each outer part, ``units`` of them there; ``strips`` of the
    kernel's lanes have them all. ``share`` rows are a split's.
    """

    plans: tuple[ColumnsPlan, ...]
    units: int
    pitch: int
    strips: int
    splits: int
    share: int
    band: int = 0  # strips of one, of two looks in one launch
    ahead: int = 0  # pieces that are looked at before any is written
    backwards: int = 0  # whether the last pieces of a band are written first

    @property
    def blocks(self) -> int:
        """Of a launch."""
        if self.band:
            return 2 * -(-self.strips // self.band) * self.band * self.splits
        return self.strips * self.splits

    @property
    def groups(self) -> int:
        """Of a strip's pairs, which are merged before all are."""
        return -(-self.splits // MERGED)

    def places(self, size: int) -> int:
        """Of all strips, for elements of ``size`` bytes."""
        unit, lanes, *_ = self.plans[0].shape.sizes
        return self.strips * lanes * unit // size

    def partials_bytes(self, size: int) -> int:
        """Of memory between two looks, for elements of ``size`` bytes: 8 a place and split."""
        return 8 * self.places(size) * (self.splits + bool(self.band) * self.groups)

    def capacity(self, size: int) -> int:
        """Of the memory in which blocks meet, twice so many 16 bytes: for counters and for pairs.

        A power of two, so that few sizes serve all shapes.
        """
        return _power(max(self.places(size), -(-self.strips * (self.groups + 1) // 4)))


def choose(
    columns: Columns, size: int, unit: int, log: bool, arch: int, multiprocessors: int,
    gpu: str = "",
) -> Choice:  # fmt: skip
    """What serves ``columns`` of elements of ``size`` bytes in units of ``unit`` bytes.

    ``arch`` is 90 for sm_90, ``gpu`` a slug, or empty: any.
    """
    if shape := _measured(columns, size, unit, arch, gpu):
        with suppress(ValueError):  # too many places for it
            return chosen(shape, columns, size, unit, log)
    return by_rule(columns, size, unit, log, arch, multiprocessors)


def chosen(shape: Shape, columns: Columns, size: int, unit: int, log: bool) -> Choice:
    """The same by ``shape``.  Raises ValueError where a thread had too many rows, or a launch too
    many blocks or places."""
    if shape.regime == "bands":
        return _in_bands(shape, columns, size, unit, log)
    _, lanes, threads, blocks, _, eighths, *polynomial = shape.sizes
    units, share = columns.inner * size // unit, -(-columns.cols // blocks)
    each = -(-share // (threads // lanes))
    staged = each * eighths // 8
    # A logarithm's exponentials are summed and no more: half as many.
    share_of = sum(polynomial) * (not log)
    plan = ColumnsPlan(shape, each - staged, 0, log=log, staged=staged, polynomial=share_of)
    words = plan.held * max(1, unit // 4)
    fits = words <= MOST_WORDS and plan.shared_bytes <= MOST_STAGED
    if shape.sizes[0] != unit or not fits or (size > 2 and any(polynomial)):
        raise ValueError(f"{shape} cannot hold {columns} in units of {unit} bytes")
    return _choice(columns, units, _pitch(units, lanes), plan, blocks)


def _pitch(units: int, lanes: int) -> int:
    """Units of a strip are those of one outer part, or a power of two of them to each."""
    return units if units >= lanes else _power(units)


def _in_bands(shape: Shape, columns: Columns, size: int, unit: int, log: bool) -> Choice:
    _, lanes, threads, _, trips, of_band, beside, backwards = shape.sizes
    units, together = columns.inner * size // unit, TOGETHER // max(1, unit // 4)
    pitch = _pitch(units, lanes)
    strips = -(-columns.outer * pitch // lanes)
    share = threads // lanes * together * trips
    splits = -(-columns.cols // share)
    of_strip = columns.cols * lanes * unit
    band = min(strips, max(1, of_band * 2**20 // of_strip))
    pieces = -(-strips // band) * band * splits
    ahead = min(pieces, band * splits + beside * 2**20 // (share * lanes * unit))
    kernel = Shape("bands", shape.sizes[:4])  # the others are its arguments
    plan = ColumnsPlan(kernel, 0, 0, log=log)
    made = Choice((plan,), units, pitch, strips, splits, share, band, ahead, backwards)
    fits = made.places(size) <= MOST_POSTED and made.blocks < 2**31
    if shape.sizes[0] != unit or not fits:
        raise ValueError(f"{shape} cannot take {columns} in units of {unit} bytes")
    return made


class Entry(NamedTuple):
    """The fastest shape for a tensor of elements of ``size`` bytes."""

    size: int
    columns: Columns
    shape: Shape


@cache
def table(gpu: str) -> tuple[Entry, ...]:
    """What was measured on ``gpu``; nothing where nothing was."""
    path = select.TABLES / FOLDER / f"{gpu}.json"
    entries = json.loads(path.read_text())["entries"] if path.exists() else []
    return tuple(
        Entry(
            ELEMENT_BYTES[e["dtype"]],
            Columns(e["outer"], e["cols"], e["inner"], e["cols"] * e["inner"], e["inner"]),
            select.shape_of(e),
        )
        for e in entries
    )


def _measured(columns: Columns, size: int, unit: int, arch: int, gpu: str) -> Shape | None:
    """The shape that was fastest with the next number of rows, and the nearest of places.

    Within a factor of two of rows, since a thread holds its share of them; with places enough
    for as many blocks; and of tensors whose rows begin alike in memory's pieces, if there are any.
    """
    if unit != VECTOR_BYTES:
        return None
    places = columns.outer * columns.inner
    known = table(gpu) or (table(select.DEFAULT) if arch in HOPPERS else ())
    fit = [
        e for e in known
        if e.size == size
        and e.columns.cols // 2 < columns.cols <= e.columns.cols
        and e.columns.outer * e.columns.inner <= 2 * places
    ]  # fmt: skip
    if not fit:
        return None
    # Where every other row begins in the middle of a piece, wider strips have fewer halves of them.
    aligned = columns.aligned(size)
    alike = [e for e in fit if e.columns.aligned(size) == aligned] or fit
    return min(alike, key=lambda e: _distance(e.columns, columns)).shape


def _distance(measured: Columns, columns: Columns) -> tuple[int, float, float]:
    """Of rows the next number, then the nearest number of places, then the nearest of a row."""
    row = measured.inner / columns.inner
    return measured.cols, abs(log2(measured.outer / columns.outer * row)), abs(log2(row))


def by_rule(
    columns: Columns, size: int, unit: int, log: bool, arch: int, multiprocessors: int
) -> Choice:
    """The same where nothing was measured."""
    units, held = columns.inner * size // unit, min(UNITS, WORDS * 4 // unit)
    cols, hopper = columns.cols, arch in HOPPERS
    if cols <= held:
        lanes = ALONE
        while lanes > 32 and columns.outer * units < lanes * multiprocessors:
            lanes //= 2
        return _choice(columns, units, units, _held(unit, lanes, lanes, cols, 1, log), 1)

    line, sector = (max(1, min(32, of // unit)) for of in (LINE_BYTES, SECTOR_BYTES))
    pitch = units
    if units < line:  # a strip to each outer part: its rows lie side by side if the slab does
        line = pitch = _power(units)
        sector = min(sector, line)

    def strips(lanes: int) -> int:
        return -(-columns.outer * pitch // lanes)

    lanes, blocks, threads = line, 1, THREADS
    while (blocks := _blocks(cols, lanes, threads, held)) > (CLUSTER if hopper else 1):
        if lanes > sector:
            lanes //= 2
        elif threads < WIDEST and (not hopper or blocks > LARGEST_CLUSTER):
            threads = WIDEST
        else:
            break
    if blocks > (LARGEST_CLUSTER if hopper else 1):
        return _twice(columns, size, units, pitch, unit, line, log, multiprocessors)
    if lanes == pitch:  # narrow, and perhaps short: several of the outer parts to a block
        many = 8 * multiprocessors
        while lanes < 32 and cols * lanes * unit < LITTLE and strips(2 * lanes) >= many:
            lanes *= 2
    while 2 * strips(lanes) * blocks <= multiprocessors:  # else the most that one has stays
        if lanes > sector:
            lanes //= 2
        elif hopper and 2 * blocks <= CLUSTER and cols >= 2 * blocks * LEAST_ROWS:
            blocks *= 2
        else:
            break
    share = -(-cols // blocks)
    few = 4 * strips(lanes) * blocks < multiprocessors
    if few and share * lanes * unit > MUCH:
        return _twice(columns, size, units, pitch, unit, line, log, multiprocessors)
    while threads > 32 and share <= threads // 2 // lanes * held:
        threads //= 2
    each = -(-share // (threads // lanes))
    return _choice(columns, units, pitch, _held(unit, lanes, threads, each, blocks, log), blocks)


def _power(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _blocks(cols: int, lanes: int, threads: int, held: int) -> int:
    return _power(-(-cols // (threads // lanes * held)))


def _held(unit: int, lanes: int, threads: int, held: int, blocks: int, log: bool) -> ColumnsPlan:
    # As many registers as rows take, and as many again.
    least = max(1, 1024 // threads)
    return ColumnsPlan(Shape("held", (unit, lanes, threads, blocks, least, 0)), held, 0, log=log)


def _choice(columns: Columns, units: int, pitch: int, plan: ColumnsPlan, blocks: int) -> Choice:
    strips = -(-columns.outer * pitch // plan.shape.sizes[1])
    return Choice((plan,), units, pitch, strips, blocks, -(-columns.cols // blocks))


def _twice(
    columns: Columns, size: int, units: int, pitch: int, unit: int, lanes: int, log: bool,
    multiprocessors: int,
) -> Choice:  # fmt: skip
    if units >= 2 * lanes <= 32:  # no strip has to be held, and wider ones are read faster
        lanes *= 2
    sizes, strips = (unit, lanes, THREADS, 1), -(-columns.outer * pitch // lanes)
    trip = THREADS // lanes * TOGETHER // max(1, unit // 4)  # rows
    # One wave of blocks at least; several, which end more evenly, while the pairs of a strip that
    # each block reads are few beside its rows.
    wave = RESIDENT * multiprocessors
    few = isqrt(columns.cols * size // (8 * PAIRS))
    splits = min(-(-WAVES * wave // strips), max(1, wave // strips, few))
    share = min(columns.cols, max(-(-columns.cols // splits), trip))
    share = -(-share // trip) * trip  # of whole trips
    plans = (
        ColumnsPlan(Shape("partials", sizes), 0, 0),
        ColumnsPlan(Shape("results", sizes), 0, 0, log=log),
    )
    return Choice(plans, units, pitch, strips, -(-columns.cols // share), share)
