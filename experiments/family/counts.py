"""What ncu counts of the operators where (family/counts.csv): one to three cases of each.

What an operator moves at least is a formula of its own (``n_bytes``); this is what is compared with
it.  Cases are some of those that are timed, of tensors that no L2 holds.  Of `calls` nothing is
counted: its functions are those of the others.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from experiments.family import (
    attention,
    backward,
    columns,
    cross_entropy,
    factors,
    masks,
    sample,
    topk_softmax,
)
from experiments.family.operator import OURS, TORCH, Case, in_rows
from experiments.ncu import outside

FILE = "family/counts.csv"  # in a source's folder
IMPLEMENTATIONS = (OURS, TORCH)
WATCHED: Mapping[str, tuple[Case, ...]] = {
    # Where the registers of a cluster are counted.
    "factors": (in_rows(factors.LOG, "bfloat16", 2048, 131_072),),
    # Short rows and wide ones: a line of memory holds scores that are seen and hidden ones.
    "masks": tuple(masks.of_scores(masks.CAUSAL, "bfloat16", n) for n in (256, 16_384)),
    # Far more rows than are held, and a square of them.
    "columns": (
        columns.of_shape(columns.TALL, "bfloat16", (1, 1_000_000, 64)),
        columns.of_shape(columns.SQUARE, "bfloat16", (1, 8192, 8192)),
    ),
    # The widest that a cluster holds, and the farthest from the speed of a sum.
    "backward": (in_rows(backward.SOFTMAX, "float32", 256, 262_144),),
    "cross_entropy": tuple(
        in_rows(asked, "bfloat16", 4096, 128_256)
        for asked in (cross_entropy.LOSS, cross_entropy.GRADIENT, cross_entropy.TERMS_GRADIENT)
    ),
    "topk_softmax": (in_rows(topk_softmax.asked(50), "float32", 256, 128_256),),
    "sample": (in_rows(sample.OF_P, "float32", 256, 128_256),),
    # The longest: every block of queries reads all keys and values of its head.
    "attention": tuple(
        attention.of_tokens(causal, "bfloat16", 16_384, 128) for causal in (False, True)
    ),
}


class Watched(NamedTuple):
    """A call that is watched: an implementation of an operator at its case ``number``."""

    operator: str
    implementation: str
    number: int

    @property
    def case(self) -> Case:
        return WATCHED[self.operator][self.number]

    def __str__(self) -> str:
        return f"{self.operator}, {self.implementation}: {self.case}"


def watched() -> list[Watched]:
    """Every call that is watched, case by case."""
    return [
        Watched(operator, name, number)
        for operator, cases in WATCHED.items()
        for number in range(len(cases))
        for name in IMPLEMENTATIONS
    ]


def label(call: Watched) -> str:
    """The NVTX range around ``call``."""
    return " ".join(map(str, call))


def call_of(cell: str) -> Watched:
    """From the ranges around a kernel: '648  "<default domain>:masks ours 0:'.

    Raises BadReport where they are those of no call.
    """
    match = re.search(r":(\w+) (\w+) (\d+):", cell)
    found = Watched(match[1], match[2], int(match[3])) if match else None
    if found is None or found not in watched():
        raise outside(cell)
    return found
