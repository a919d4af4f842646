"""What top-k and sampling compile, how they split rows, and in which passes they look for a key.

Imports neither torch nor CUDA: the build reads it on every machine. Of few rows a launch is split
into one wave of blocks, since a few more than fit at once take as long as another wave: by what
Hopper's multiprocessors have room for, and of an A100's, which have less shared memory, in more.
"""

from dataclasses import dataclass
from pathlib import Path

from kernels.frontier.plans import HERE, Plan, Shape

FILES = ("topk", "sampling", "nucleus")
THREADS = 256  # of a block
MOST_TOP = 128  # of a row, in one read
# Of a multiprocessor at once: in Hopper's shared memory is no room for more (``shared_bytes``).
BLOCKS = 4
JUDGING = 3
NARROWING = {"float32": 5, "float16": BLOCKS, "bfloat16": BLOCKS}
# Columns from which on a row has one part more, and as many again for the next: shorter parts cost
# more to merge than they save.
LEAST_SHARE = 2048
# The same where parts leave k candidates each: with 2048 a top-k of 128 takes a quarter to two
# fifths longer of 1 and 4 rows of 128,256 columns, and none of 1 to 16 rows 4% less (an H200).
LEAST_TOP_SHARE = 4096
# Elements of a part that is judged, at the most: half of those whose sums are exact (summing.cuh).
MOST_SHARE = 2**19
DIGIT, BINS, WORD_BYTES = 11, 2048, 8
SEARCH_BYTES = 32
LEFT_BYTES = 4  # of a row's number
FIRST, STANDING_BYTES = 4, 56  # for top-p alone: of a race, those that are noted (nucleus.cu)
# Elements of rows that a race and its judge may leave, on the average. A block alone takes a
# microsecond for a thousand of them, a second turn five for nothing (an H200).
MOST_LEFT = 5000
MOST_SHARED = 46 * 1024  # bytes that a block is given unasked, but for 2 KiB of its own
UNUSED = {"float32": 0, "float16": 13, "bfloat16": 16}  # bits at the end of a float
WEIGHT_BITS = 40  # after the point of a token's weight, relative to the most probable one's
# Of rows that several passes read, so many bytes at once: the L2 of an A100 or an H200 holds them.
GROUP_BYTES = 32 * 2**20


@dataclass(frozen=True)
class ChoicePlan(Plan):
    """Kernel ``entry`` of a file; '{}' in it is the type of the elements."""

    entry: str = ""

    @property
    def file(self) -> Path:
        return HERE / f"{self.shape.regime}.cu"

    def expression(self, c_type: str) -> str:
        """The kernel as C++ names it, for elements of ``c_type``."""
        return self.entry.format(c_type)

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.shape.regime} {self.entry.format('T')}"


def plan(file: str, entry: str) -> ChoicePlan:
    return ChoicePlan(Shape(file, (THREADS,)), held=0, edges=1, entry=entry)


CANDIDATES = {
    sums: plan("topk", f"candidates<{{}}, {str(sums).lower()}>") for sums in (True, False)
}
TOP = {whole: plan("topk", f"topk_softmax<{{}}, {str(whole).lower()}>") for whole in (True, False)}
SAMPLE = {kept: plan("sampling", f"sample<{{}}, {str(kept).lower()}>") for kept in (True, False)}
CHOSEN, SAMPLE_OF_TOP = plan("sampling", "chosen"), plan("sampling", "sample_of_top<{}>")
HIGHEST, NARROW = plan("sampling", "highest<{}>"), plan("sampling", "narrow<{}>")
DRAW = {again: plan("nucleus", f"draw<{{}}, {str(again).lower()}>") for again in (False, True)}
JUDGE = {last: plan("nucleus", f"judge<{{}}, {str(last).lower()}>") for last in (False, True)}
PLANS = (
    *CANDIDATES.values(), *TOP.values(), *SAMPLE.values(), CHOSEN, SAMPLE_OF_TOP, HIGHEST, NARROW,
    *DRAW.values(), *JUDGE.values(),
)  # fmt: skip


def least_parts(cols: int) -> int:
    """The fewest parts of a row that is judged."""
    return -(-cols // MOST_SHARE)


def parts_of(rows: int, most: int, multiprocessors: int, blocks: int = BLOCKS) -> int:
    """Parts of a row, ``most`` at most, of which a multiprocessor has room for ``blocks``.

    So many that few rows, too, fill the GPU, and that all are there at once.
    """
    return max(1, min(blocks * multiprocessors // rows, most))


def most_parts(cols: int) -> int:
    """The most parts of a row that runs a race, or is judged."""
    return -(-cols // LEAST_SHARE)


def most_top_parts(cols: int) -> int:
    """The most parts of a row in which candidates are looked for."""
    return -(-cols // LEAST_TOP_SHARE)


def shared_bytes(blocks: int, of_all: int) -> int:
    """So much of a multiprocessor's shared memory that it has room for ``blocks``, and not more.

    Where there was, blocks of the next call would take it, and be spread unevenly.
    """
    return min(of_all // (blocks + 1), MOST_SHARED)


def column_bits(cols: int) -> int:
    """Of the last column's number."""
    return (cols - 1).bit_length()


def weight_bits(cols: int) -> int:
    """Of a weight after the point: the sum of a row stays below 2^63."""
    return min(WEIGHT_BITS, 62 - cols.bit_length())


@dataclass(frozen=True)
class Pass:
    """One look at a row: ``bits`` bits of its keys from bit ``shift`` on (frontier/narrow.cuh)."""

    shift: int
    bits: int
    weighted: bool
    first: bool

    def told(self) -> int:
        """As the kernels take it."""
        return self.shift | self.bits << 8 | self.weighted << 16 | self.first << 17


def passes_of(dtype: str, cols: int, weighted: bool) -> list[Pass]:
    """Those that find the last key kept: the digits of its value, then of its column."""
    digits = [*_digits(64, 32 + UNUSED[dtype]), *_digits(column_bits(cols), 0)]
    return [Pass(*digit, weighted, first=i == 0) for i, digit in enumerate(digits)]


def _digits(end: int, start: int) -> list[tuple[int, int]]:
    found = []
    while end > start:
        bits = min(DIGIT, end - start)
        end -= bits
        found.append((end, bits))
    return found


def memory_words(rows: int, parts: int, passes: int) -> int:
    """Of 8 bytes, that the passes over ``rows`` rows need."""
    return 3 * rows * BINS + passes * rows * SEARCH_BYTES // WORD_BYTES + _maxima(rows, parts)


def nucleus_words(rows: int, parts: int) -> int:
    """Of 8 bytes, that a race and its judges need (frontier/nucleus.cu)."""
    found = rows * STANDING_BYTES // WORD_BYTES + FIRST * rows * parts
    # Behind the maxima, of half a word each, how many rows are left, and which.
    return found + _maxima(rows, parts) + -(-(rows + 1) * LEFT_BYTES // WORD_BYTES)


def nucleus_left(rows: int, cols: int, parts: int, top_p: float) -> float:
    """So many elements of rows, on the average, are left at most after one race and its judge.

    Each of a race's first is kept with a probability of ``top_p`` or more, whoever is before it.
    Four are known, but two or three where a warp has two of these: in three rows of as many as
    their parts have warps, if it does not matter where a token stands.
    """
    warps, dropped = parts * THREADS // 32, 1.0 - top_p
    return rows * cols * dropped**2 * (dropped**2 + 3 / warps)


def nucleus_turns(again: bool) -> tuple[tuple[ChoicePlan, ChoicePlan], ...]:
    """The race and its judge of each turn, of top-p alone."""
    turns = 2 if again else 1
    return tuple((DRAW[turn > 0], JUDGE[turn + 1 == turns]) for turn in range(turns))


def _maxima(rows: int, parts: int) -> int:
    return -(-rows * parts // 2)
