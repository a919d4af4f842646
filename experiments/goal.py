"""What the project's own kernels are to reach: every goal at every point.

1  copy speed at every width, wherever rows start
2  no slower than the best of the others at any point, and ahead of it where rows are wide
3  few rows: little more than copy takes, ahead of the others, and one launch that reads once
4  DRAM bytes: each element read once and written once
5  the family in Triton: copy speed to 65,536 columns, twice what came before it beyond
6  nothing for the tools of Compute Sanitizer to find
7  and on: what each operator beside the softmax aims at (experiments/family, a file each)
16 a transformer that learns the same in less memory and time, and tells tokens sooner

What is said of a goal's places by one number is a claim of our own, with an id that stays.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from experiments.counts import FEW_ROWS, FRONTIER_POINTS
from experiments.family import OPERATORS
from experiments.family.operator import OURS, TORCH
from experiments.layout import LAYOUTS, points
from experiments.sanitizer import NAMES as WATCHED
from experiments.sanitizer import OPERATORS as WATCHED_OPERATORS
from experiments.sanitizer import TOOLS
from experiments.sweeps import SWEEPS, Point
from experiments.sweeps.sweep import TRITON, powers
from experiments.transformer.tables import BATCHES
from kernels.registry import ELEMENT_BYTES

FRONTIER, TRITON_FRONTIER = "frontier", "triton_frontier"
# What a variant is compared with beside other variants, and of what that is made.
BEST_PEER, ALLOWED, BEFORE = "the best peer", "the time allowed", "triton_row or triton_tiled"
PEERS = ("torch_eager", "torch_compile", "triton_row", "liger", "quack")
TILED = tuple(name for name in TRITON if name.startswith("triton_tiled"))
PARTS: Mapping[str, tuple[str, ...]] = {
    BEST_PEER: PEERS,
    ALLOWED: ("copy",),
    BEFORE: ("triton_row", *TILED),
}
# Of few rows: copy and as much again for the launch and the exchange, or a share of copy.
MORE_NS, MORE_SHARE = 2500.0, 1.25

SATURATED = (32, *powers(2, 6, 20), 2**22, 1000, 32_000, 50_257, 100_003, 128_256, 151_936, 201_088)
# (claim, columns, fraction of copy): up to so many columns, at least so much.
FRACTIONS = (
    ("G1.1", 1024, 0.99),
    ("G1.2", 32_768, 0.975),
    ("G1.3", 2**20, 0.97),
    ("G1.4", 2**22, 0.90),
)
ODD_16_BITS, OFF_16_BYTES, IN_TRITON = 0.96, 0.95, 0.95
WIDE = 65_536  # columns from which on to be ahead
AHEAD = math.nextafter(1.0, math.inf)
COMPARED = ("vocab_scaling", "batch_scaling", "small_batch", "frontier", "few_rows")
LEAD, LEAD_COLS, LEAD_ROWS = 1.25, 131_072, 32
BYTES_OFF = 0.03
# Of an input at least: a kernel's own code, which caches lack at first, is some 10 kB.
READ_BYTES = 2**19
READ, LAUNCHES = "dram_read_bytes", "launches"
BEFORE_FACTOR = 2.0
NOWHERE = Point("", 0, 0)
# In a source's name, before an operator's.
FAMILY = "family/"
# The tables of a transformer that was trained with each set of operators, and told tokens.
TRAINING, COMPILED, DECODING = "training", "compiled", "decoding"
SEQUENCES = "sequences"


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A number at one place, and where it shall lie: ``least`` and ``most`` are both included.

    ``claim`` is the id of what is said of all places together: G, the goal's number, and its own.
    ``source`` is a sweep, of which the speed of ``variant`` over ``against`` counts, or a table; of
    the profile's, ``against`` is READ or LAUNCHES, or '' for bytes read and written; of an
    operator's, it is the column in the row ``variant``, and a goal is one only where torch's
    fraction of the ceiling is below ``slow``; of training's, it is the column, and ``place`` is
    whose operators it is over; of decoding's, it is what is timed and how, and ``place`` the number
    of SEQUENCES.  The noise floor counts for the goal (``noise`` = -1: no slower
    within it), against it (1: ahead by more than it), or not at all.
    """

    claim: str
    statement: str
    source: str
    place: str = ""
    point: Point = NOWHERE
    variant: str = FRONTIER
    against: str = ""
    least: float = -math.inf
    most: float = math.inf
    noise: int = 0
    slow: float = math.inf

    @property
    def number(self) -> int:
        """That of the goal, of which the claim is a part."""
        return int(self.claim.removeprefix("G").split(".")[0])


def goals() -> list[Goal]:
    """All of them, in order."""
    every = chain(_copy_speed(), _off_16_bytes(), _peers(), _few_rows(), _read_once(),
                  _bytes(), _triton(), _sanitizer(), _family(), _transformer())  # fmt: skip
    return sorted(every, key=attrgetter("number"))


def _copy_speed() -> Iterator[Goal]:
    for point in SWEEPS["frontier"].points("full"):
        if point.cols in SATURATED:
            claim, most, least = next(each for each in FRACTIONS if point.cols <= each[1])
            of = f"of up to {most:,} columns"
            if point.cols % 2 and ELEMENT_BYTES[point.dtype] == 2 and least > ODD_16_BITS:
                claim, of, least = "G1.5", "of odd numbers of 16-bit columns", ODD_16_BITS
            yield Goal(
                claim=claim, statement=f"fraction of copy of saturated shapes {of}",
                source="frontier", point=point, against="copy", least=least,
            )  # fmt: skip


def _off_16_bytes() -> Iterator[Goal]:
    for layout in LAYOUTS:
        for point in points():
            if layout.edges(point.cols, ELEMENT_BYTES[point.dtype]):
                yield Goal(
                    claim="G1.6", statement="fraction of copy where rows start off 16 bytes",
                    source="layouts", place=layout.name, point=point, least=OFF_16_BYTES,
                )  # fmt: skip


def _peers() -> Iterator[Goal]:
    for sweep in COMPARED:
        for point in SWEEPS[sweep].points("full"):
            ahead = point.cols >= WIDE
            yield Goal(
                claim="G2.2" if ahead else "G2.1",
                statement=f"speed over the best peer from {WIDE:,} columns on, "
                "ahead by more than noise"
                if ahead else "speed over the best peer, no slower but for noise",
                source=sweep, point=point, against=BEST_PEER, least=AHEAD if ahead else 1.0,
                noise=1 if ahead else -1,
            )  # fmt: skip


def _few_rows() -> Iterator[Goal]:
    for point in SWEEPS["few_rows"].points("full"):
        yield Goal(
            claim="G3.1",
            statement=f"{ALLOWED} few rows (copy + 2.5 µs, or 1.25 x copy if more) over theirs",
            source="few_rows", point=point, against=ALLOWED, least=1.0,
        )  # fmt: skip
        if point.cols >= LEAD_COLS and point.rows <= LEAD_ROWS:
            yield Goal(
                claim="G3.2", statement="speed of few rows over the best peer",
                source="few_rows", point=point, against=BEST_PEER, least=LEAD,
            )  # fmt: skip


def _read_once() -> Iterator[Goal]:
    for point in FEW_ROWS:
        yield Goal(
            claim="G3.3", statement="launches for few rows", source="profile", point=point,
            against=LAUNCHES, least=1.0, most=1.0,
        )  # fmt: skip
        # What is written still lies in the L2 when the kernel ends.
        if point.rows * point.cols * ELEMENT_BYTES[point.dtype] >= READ_BYTES:
            yield Goal(
                claim="G3.4", statement="DRAM bytes read of few rows over MN", source="profile",
                point=point, against=READ, least=1 - BYTES_OFF, most=1 + BYTES_OFF,
            )  # fmt: skip


def _bytes() -> Iterator[Goal]:
    for point in FRONTIER_POINTS:
        yield Goal(
            claim="G4.1", statement="DRAM bytes over 2MN", source="profile", point=point,
            least=1 - BYTES_OFF, most=1 + BYTES_OFF,
        )  # fmt: skip


def _triton() -> Iterator[Goal]:
    for point in SWEEPS["vocab_scaling"].points("full"):
        near = point.cols <= WIDE
        yield Goal(
            claim="G5.1" if near else "G5.2",
            statement="fraction of copy in Triton" if near else f"speed in Triton over {BEFORE}",
            source="vocab_scaling", point=point, variant=TRITON_FRONTIER,
            against="copy" if near else BEFORE, least=IN_TRITON if near else BEFORE_FACTOR,
        )  # fmt: skip


def _sanitizer() -> Iterator[Goal]:
    for tool in TOOLS:
        for name in WATCHED:
            operator = name in WATCHED_OPERATORS
            claim, where = ("G6.2", " in operators") if operator else ("G6.1", "")
            yield Goal(
                claim=claim, statement=f"findings of Compute Sanitizer{where}", source="sanitizer",
                place=f"{tool}, {name}", most=0.0,
            )  # fmt: skip


def _family() -> Iterator[Goal]:
    for name, operator in OPERATORS.items():
        for aim in operator.aims:
            for case in operator.cases:
                yield Goal(
                    claim=aim.id, statement=aim.statement, source=f"{FAMILY}{name}",
                    place=case.asked, point=Point(case.dtype, case.rows, case.cols),
                    variant=aim.row, against=aim.column, least=aim.least, most=aim.most,
                    slow=aim.slow,
                )  # fmt: skip


def _transformer() -> Iterator[Goal]:
    yield Goal(
        claim="G16.1", statement="distance of the loss curve from torch's, of what is allowed",
        source=TRAINING, against="distance", variant=OURS, most=1.0,
    )  # fmt: skip
    for claim, column, what in (
        ("G16.2", "peak_bytes", "peak memory of a step"),
        ("G16.3", "step_ms", "time of a step"),
    ):
        for other in (TORCH, COMPILED):
            yield Goal(
                claim=claim, statement=f"{what} with torch's operators over that with ours",
                source=TRAINING, place=other, against=column, variant=OURS, least=AHEAD,
            )  # fmt: skip
    for claim, timed, what in (
        ("G16.4", "sample, graph", "time of choosing tokens"),
        ("G16.5", "sample, call", "wait for choosing tokens"),
        ("G16.6", "generate, call", "wait for generating tokens"),
    ):
        for batch in BATCHES:
            yield Goal(
                claim=claim, statement=f"{what} with torch's operators over that with ours",
                source=DECODING, place=f"{batch} {SEQUENCES}", against=timed, variant=OURS,
                least=AHEAD,
            )  # fmt: skip
