"""What a softmax is asked for beside itself, and what its kernel is given for that (operators.cuh).

Imports neither torch nor CUDA: the build reads it on every machine.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

Argument = int | None  # None: a pointer
MOST_ROWS = 2**31 - 1  # that a mask counts, in 32 bits
# What an operator may be for the choice of its kernel; of those with a mask the mask decides.
MASKS = ("causal", "chosen", "added")
KINDS = ("log", "factors", *MASKS)
# Those that may leave a softmax as it is, so that tuning can check them by one.
TUNED = ("factors", *MASKS)


@dataclass(frozen=True)
class Causal:
    """Of row i of every ``count`` only the first i + ``more`` elements are seen."""

    count: int
    more: int

    kind = "causal"

    def types(self, element: str) -> tuple[str, ...]:
        """The C++ types that a kernel takes for rows of ``element``."""
        return ("Causal",)

    def arguments(self) -> list[Argument]:
        """Their values, a slot of 64 bits or more each."""
        return [_words("<ii", self.count, self.more)]


@dataclass(frozen=True)
class Matrix:
    """A mask of a row's width for every row, or for many of them.

    Rows are numbered in the order of three dimensions, the last two of ``n1`` and ``n2``, along
    which the mask's rows lie ``strides`` elements apart; its elements lie ``step`` apart.
    ``boolean``: elements are seen where it is true; else it is of the input's dtype, and added.
    """

    boolean: bool
    n1: int
    n2: int
    strides: tuple[int, int, int]
    step: int

    @property
    def kind(self) -> str:
        return "chosen" if self.boolean else "added"

    def types(self, element: str) -> tuple[str, ...]:
        """As Causal's."""
        return (f"const {'unsigned char' if self.boolean else element} *", "Places")

    def arguments(self) -> list[Argument]:
        """As Causal's: the mask's address, and Places, the last argument and several slots long."""
        return [None, self.n1, self.n2, *self.strides, self.step]


@dataclass(frozen=True)
class Operator:
    """``after`` * softmax(``times`` * x), of what ``mask`` leaves of x; ``log``: its logarithm.

    ``times`` is finite and above 0, so that the largest element stays it; else ValueError.
    """

    log: bool = False
    times: float = 1.0
    after: float = 1.0
    mask: Causal | Matrix | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.times < math.inf:
            raise ValueError(f"expected a finite factor above 0 of the elements; got {self.times}")

    @property
    def kind(self) -> str:
        """One of KINDS."""
        if self.mask:
            return self.mask.kind
        return "log" if self.log else "factors"

    def types(self, element: str) -> tuple[str, ...]:
        """The C++ types of what a kernel for rows of ``element`` is given."""
        log = str(self.log).lower()
        return (f"Factors<{log}>", *(self.mask.types(element) if self.mask else ()))

    def arguments(self) -> list[Argument]:
        """Their values: an integer for every 64 bits, None for the mask's address."""
        factors = _words("<ff", self.times, self.after)
        return [factors, *(self.mask.arguments() if self.mask else ())]


def matrix(
    shape: Sequence[int], strides: Sequence[int], boolean: bool
) -> Matrix | None:  # fmt: skip
    """A mask that was expanded to the rows' ``shape``; None where it lies in more dimensions."""
    sizes, steps = [1, 1, 1], [0, 0, 0]
    place = 2
    for size, stride in zip(reversed(shape[:-1]), reversed(strides[:-1]), strict=True):
        if size == 1:
            continue
        # Dimensions become one where the mask's rows lie evenly, as those do that are all one.
        if sizes[place] > 1 and stride != steps[place] * sizes[place]:
            place -= 1
            if place < 0:
                return None
        if sizes[place] == 1:
            steps[place] = stride
        sizes[place] *= size
    return Matrix(boolean, sizes[1], sizes[2], (steps[0], steps[1], steps[2]), strides[-1])


def _words(form: str, *values: float) -> int:
    """Two words of 32 bits as they lie side by side."""
    return struct.unpack("<q", struct.pack(form, *values))[0]
