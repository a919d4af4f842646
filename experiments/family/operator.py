"""What the measurement of an operator is made of: cases, implementations, what is aimed at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kernels.registry import ELEMENT_BYTES

if TYPE_CHECKING:
    from torch import Tensor

# Blocks (fresh processes) an operator in each mode, and samples in each block.
BLOCKS = {"smoke": 2, "quick": 2, "full": 3}
SAMPLES = {"smoke": 2, "quick": 3, "full": 5}
# Of a full run, times so many where callers' waits are timed: a machine that others use too takes
# twice as long for tens of milliseconds at a time, in which a few samples are over.
OF_WAITS = 5
# Exit codes of a block that loses the GPU, and of one elsewhere; of an exception it is 1.
LOST, ANOTHER_MACHINE = 3, 2
OURS, PLAIN, TORCH = "ours", "plain", "torch"


class Refused(ValueError):
    """An implementation does not do a case; the message says why."""


@dataclass(frozen=True)
class Case:
    """Something ``asked`` of tensors of one dtype: ``rows`` softmaxes of ``cols`` elements each.

    ``shape`` is that of the input, wherever in it a softmax lies.
    """

    asked: str
    dtype: str
    shape: tuple[int, ...]
    rows: int
    cols: int

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def elements(self) -> int:
        return self.rows * self.cols

    @property
    def tensor_bytes(self) -> int:
        """Bytes of the input."""
        return math.prod(self.shape) * self.size

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a table that tell the case."""
        return {
            "asked": self.asked, "dtype": self.dtype, "shape": "x".join(map(str, self.shape)),
            "rows": self.rows, "cols": self.cols,
        }  # fmt: skip

    def __str__(self) -> str:
        return f"{self.asked}, {self.dtype} {' x '.join(map(str, self.shape))}"


def in_rows(asked: str, dtype: str, rows: int, cols: int) -> Case:
    """A case of a matrix."""
    return Case(asked, dtype, (rows, cols), rows, cols)


def filled(asked: str, dtype: str, cols: int, tensor_bytes: int) -> Case:
    """A case of as many rows as give a tensor of about ``tensor_bytes``."""
    return in_rows(asked, dtype, max(1, tensor_bytes // (cols * ELEMENT_BYTES[dtype])), cols)


@dataclass(frozen=True)
class Error:
    """How far a result is from float64's, how far it may be, and in which measure.

    ``told`` says what is wrong where more is known than the number.
    """

    value: float
    most: float
    measure: str = "relative error"
    told: str = ""

    @property
    def reason(self) -> str:
        """Why the result is wrong; empty where it is not."""
        if self.value <= self.most:  # False of NaN
            return ""
        return self.told or f"{self.measure} {self.value:.3g} exceeds {self.most:g}"


# The tensors of a case, in the operator's order, to a result.
Call = Callable[..., Any]
Bytes = Callable[[Case], int]
Judge = Callable[[Case, "tuple[Tensor, ...]", Any], Error]


@dataclass(frozen=True)
class Implementation:
    """One way to do what an operator does.

    ``prepare`` gives the call at a case on a device, or raises Refused; what it needs that is not
    installed raises ImportError or kernels.launch.Unavailable.

    graph       whether its calls can be captured in a CUDA graph
    overwrites  it writes over its inputs: it is timed on copies of its own
    repeats     its results are equal, bit for bit, for equal inputs
    n_bytes     what it moves where it answers another question than the operator: a ceiling
    error       and what its result is compared with then
    """

    name: str
    prepare: Callable[[Case, str], Call]
    graph: bool = True
    overwrites: bool = False
    repeats: bool = False
    n_bytes: Bytes | None = None
    error: Judge | None = None


@dataclass(frozen=True)
class Aim:
    """Claim ``id``: where a column of the tidy table shall lie, in the row of ours or of ``row``.

    The id is G, the goal's number, and its own; it stays, since others cite it.  ``row`` names an
    implementation that ours is compared with.  Where ``slow`` is given, only cases count at which
    torch reaches a smaller fraction of the ceiling.
    """

    id: str
    statement: str
    column: str
    least: float = -math.inf
    most: float = math.inf
    slow: float = math.inf
    row: str = OURS


def ahead(id: str, what: str, other: str, least: float = 1.0) -> Aim:
    """Ours is at least so many times as fast as the implementation ``other``, where that runs."""
    return Aim(id, f"speed of {what} over {other}", "speedup_of_ours", least, row=other)


def _values(case: Case, tensors: tuple[Tensor, ...], result: Any) -> Tensor:
    """A result; of values with their places, the values."""
    return result[0] if isinstance(result, tuple) else result


@dataclass(frozen=True)
class Accuracy:
    """How errors are counted in units of the last place, by kind of input.

    cases            of some dtype: each is asked in all
    small            the same on a CPU
    given            the operator's tensors from a case, its input (rows, cols) and a seed
    exact            of them: what is compared, in float64, and the magnitudes in whose last places
                     errors count
    cols             of that input, where a case's are something else
    but              kinds of input that make no sense
    compared         from (case, tensors, result), what of the result is compared
    implementations  those that are judged
    """

    cases: tuple[Case, ...]
    small: tuple[Case, ...]
    given: Callable[[Case, Tensor, int], tuple[Tensor, ...]]
    exact: Callable[[Case, tuple[Tensor, ...]], tuple[Tensor, Tensor]]
    cols: Callable[[Case], int] = attrgetter("cols")
    but: tuple[str, ...] = ()
    compared: Callable[[Case, tuple[Tensor, ...], Any], Tensor] = _values
    implementations: tuple[str, ...] = (OURS, TORCH)


def _no_flops(case: Case) -> float:
    return math.nan


@dataclass(frozen=True)
class Operator:
    """An operator: what is asked, of which tensors, how it is judged, and who does it.

    tensors   from (case, device, seed), the inputs, and then ``outputs`` tensors to write to
    error     of a result, from (case, tensors, result)
    n_bytes   what an ideal implementation moves
    flops     floating-point operations, where these are what counts
    code      patterns of the files in kernels/ that serve ``ours``
    quick     the cases of a quick run, some of ``cases``
    accuracy  how its errors are counted; None where nothing is rounded that others do not round
    waits     whether callers' waits are timed, and not what the device takes
    """

    cases: tuple[Case, ...]
    quick: tuple[Case, ...]
    smoke: tuple[Case, ...]
    tensors: Callable[[Case, str, int], tuple[Tensor, ...]]
    error: Judge
    n_bytes: Bytes
    implementations: tuple[Implementation, ...]
    code: tuple[str, ...]
    outputs: int = 0
    flops: Callable[[Case], float] = _no_flops
    aims: tuple[Aim, ...] = ()
    accuracy: Accuracy | None = None
    waits: bool = False

    def __post_init__(self) -> None:
        if odd := [case for case in self.quick if case not in self.cases]:
            raise ValueError(f"quick cases that a full run has not: {', '.join(map(str, odd))}")
        names = [each.name for each in self.implementations]
        if len(set(names)) < len(names) or not {OURS, TORCH} <= set(names):
            raise ValueError(
                f"expected '{OURS}', '{TORCH}' and others, once each; got {', '.join(names)}"
            )

    def in_mode(self, mode: str) -> tuple[Case, ...]:
        """The cases of a full, quick or smoke run."""
        return {"full": self.cases, "quick": self.quick, "smoke": self.smoke}[mode]

    def samples(self, mode: str) -> int:
        """Of a case in a block."""
        return SAMPLES[mode] * (OF_WAITS if self.waits and mode == "full" else 1)


def chosen(cases: Iterable[Case], *cols: int, dtype: str = "") -> tuple[Case, ...]:
    """Those of ``cases`` of these widths, and of one dtype if it is named."""
    return tuple(c for c in cases if c.cols in cols and dtype in ("", c.dtype))
