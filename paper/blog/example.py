"""The worked example: S1's matrix of 3 x 8 in blocks of 4, each step computed in float64.

The inputs are S1's, so that a reader may lay both side by side; its printed sums of two rows are
wrong (docs/errata.md, E01 and E02), and none of them stands here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MATRIX = (
    (2.0, -1.0, 3.0, 0.5, -0.5, 1.5, -2.0, 1.0),
    (4.0, -3.0, 2.5, 1.0, -1.5, 0.0, -0.5, 2.0),
    (-1.0, 3.5, -2.5, 1.5, 0.0, -3.0, 2.5, -0.5),
)
BLOCK = 4


@dataclass(frozen=True)
class Block:
    """A block of a row as the three-pass form meets it."""

    first: int
    last: int
    values: tuple[str, ...]
    maximum: str
    running_maximum: str
    exponentials: tuple[str, ...]
    partial_sum: str
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Online:
    """A block as the online form meets it: what the sum so far is multiplied by, and comes to."""

    first: int
    last: int
    running_maximum: str
    factor: str
    running_sum: str


@dataclass(frozen=True)
class Row:
    """A row, its blocks, and what they come to.

    ``online`` takes the blocks from the last to the first: the maxima are in the first, and a
    maximum that rises on the way is what the online form is about.
    """

    number: int
    values: tuple[str, ...]
    blocks: tuple[Block, ...]
    online: tuple[Online, ...]
    maximum: str
    total: str
    outputs: tuple[str, ...]
    output_sum: str


def rows(matrix: Sequence[Sequence[float]] = MATRIX, block: int = BLOCK) -> tuple[Row, ...]:
    """The worked example, row by row."""
    return tuple(_row(i, np.array(values), block) for i, values in enumerate(matrix))


def _row(number: int, x: np.ndarray, block: int) -> Row:
    total = np.exp(x - x.max()).sum()
    y = np.exp(x - x.max()) / total
    blocks, high = [], -np.inf
    for start in range(0, len(x), block):
        part = x[start : start + block]
        high = max(high, part.max())
        terms = np.exp(part - x.max())
        blocks.append(
            Block(
                first=start, last=start + len(part) - 1, values=_one(part),
                maximum=f"{part.max():.1f}", running_maximum=f"{high:.1f}",
                exponentials=_three(terms), partial_sum=f"{terms.sum():.3f}",
                outputs=_three(y[start : start + block]),
            )
        )  # fmt: skip
    return Row(
        number=number, values=_one(x), blocks=tuple(blocks), online=_online(x, block),
        maximum=f"{x.max():.1f}", total=f"{total:.3f}", outputs=_three(y),
        output_sum=f"{y.sum():.3f}",
    )  # fmt: skip


def _online(x: np.ndarray, block: int) -> tuple[Online, ...]:
    steps, high, total = [], -np.inf, 0.0
    for start in reversed(range(0, len(x), block)):
        part = x[start : start + block]
        before, high = high, max(high, part.max())
        factor = np.exp(before - high)
        total = total * factor + np.exp(part - high).sum()
        steps.append(
            Online(start, start + len(part) - 1, f"{high:.1f}", f"{factor:.3f}", f"{total:.3f}")
        )
    return tuple(steps)


def _one(values: np.ndarray) -> tuple[str, ...]:
    return tuple(f"{v:.1f}" for v in values)


def _three(values: np.ndarray) -> tuple[str, ...]:
    return tuple(f"{v:.3f}" for v in values)
