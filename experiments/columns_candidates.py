"""Which shapes of kernel may be fast down columns, of a tensor on Hopper: what tuning measures."""

from collections.abc import Iterator
from itertools import product

from kernels.frontier.columns_layout import Columns
from kernels.frontier.columns_plans import MOST_POSTED, MOST_STAGED, MOST_WORDS
from kernels.frontier.plans import VECTOR_BYTES, Shape

# Of rows that are held: bytes of a strip, threads, blocks of a cluster, words of a thread's rows,
# registers that a thread has beside these, and blocks of a multiprocessor below as many as
# registers allow.
STRIPS, BLOCK_THREADS, CLUSTERS = (32, 64, 128, 256), (64, 128, 256, 512), (1, 2, 4, 8, 16)
LEAST_WORDS, OVERHEAD, FEWER = 16, 32, (0, 1)
# And where rows do not begin alike in memory's pieces of 256 bytes, which strips then halve.
WIDE_STRIP = 512
REGISTERS, RESIDENT_THREADS = 65_536, 2048  # of a multiprocessor
# Eighths of places whose exponentials are a polynomial's: at 2 the exponential unit and all other
# instructions of a unit of 16 bits take 96 and 94 cycles of a scheduler, and 128 and 70 at 0.
# It takes registers beside.
POLYNOMIAL, BESIDE = (0, 2), 8
# Eighths of a thread's units that candidates stage, of strips of so many bytes and more.
STAGED, STAGED_STRIP = (0, 4, 5), 128
# Of two looks in one launch: bytes of a strip, MB of a band, MB that are looked at beside it before
# its results are written, since pairs take microseconds to meet, and whether its last pieces are
# written first; threads and trips of a piece.  Smaller tensors and shorter columns are held.
BAND_STRIPS, BAND_MEGABYTES, BAND_AHEAD, BAND_ORDERS = (128, 256), (6, 16), (6, 16), (0, 1)
BAND_PIECES = ((256, 4), (512, 2))
LEAST_BANDED, LEAST_BANDED_ROWS = 4 * 2**20, 1024


def candidates(columns: Columns, size: int, unit: int) -> Iterator[Shape]:
    """What may be fast on Hopper."""
    yield from _held_candidates(columns, size, unit)
    yield from _band_candidates(columns, size, unit)


def _band_candidates(columns: Columns, size: int, unit: int) -> Iterator[Shape]:
    places = columns.outer * columns.inner
    few = places * columns.cols * size < LEAST_BANDED or columns.cols < LEAST_BANDED_ROWS
    if few or places > MOST_POSTED // 2:
        return
    for strip, (threads, trips), *more in product(
        BAND_STRIPS, BAND_PIECES, BAND_MEGABYTES, BAND_AHEAD, BAND_ORDERS
    ):
        yield Shape("bands", (unit, strip // unit, threads, 1, trips, *more))


def _held_candidates(columns: Columns, size: int, unit: int) -> Iterator[Shape]:
    strips = STRIPS if columns.aligned(size) else (*STRIPS, WIDE_STRIP)
    for strip, threads, blocks, eighths in product(strips, BLOCK_THREADS, CLUSTERS, STAGED):
        lanes = strip // unit
        if not 1 <= lanes <= min(32, threads):
            continue
        each = -(-columns.cols // (blocks * (threads // lanes)))
        staged = each * eighths // 8
        words = (each - staged) * max(1, unit // 4)
        if words > MOST_WORDS or (words < LEAST_WORDS and (blocks > 1 or threads > 64)):
            continue
        if eighths and (strip < STAGED_STRIP or staged == 0):
            continue
        for polynomial in POLYNOMIAL if size == 2 else (0,):
            used = OVERHEAD + words + BESIDE * (polynomial > 0)
            fit = min(RESIDENT_THREADS, REGISTERS // used) // threads
            least = {max(1, fit - fewer) for fewer in FEWER}
            if eighths:
                least = {min(fit, MOST_STAGED // (threads * staged * VECTOR_BYTES))}
            for blocks_at_once in sorted(least - {0}):
                sizes = (unit, lanes, threads, blocks, blocks_at_once, eighths)
                yield Shape("held", (*sizes, polynomial) if polynomial else sizes)
