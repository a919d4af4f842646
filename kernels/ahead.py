"""Which of the frontier's kernels are compiled without a GPU, of all that may be met."""

from kernels.frontier.backward_plans import backward_plan
from kernels.frontier.columns_layout import Columns, unit_bytes
from kernels.frontier.columns_plans import choose
from kernels.frontier.plans import VECTOR_BYTES, Plan
from kernels.frontier.select import DEFAULT, Request, select
from kernels.registry import ELEMENT_BYTES

# Widths that stand for the ranges of the table: the others are compiled when they are met.
AHEAD = (64, 63, 1024, 8192, 32_768, 50_257, 131_072, 1_048_576)
# The same of tensors whose softmax goes along another dimension than the last: outer, cols, inner.
COLUMNS = ((1, 64, 1_048_576), (8, 1024, 512), (1, 8192, 8192), (1, 1_048_576, 32), (64, 1000, 3))
MULTIPROCESSORS = 132


def ahead(dtype: str, arch: str) -> tuple[Plan, ...]:
    """For many rows of AHEAD columns, for their gradients, and for COLUMNS."""
    number, size = int(arch.removeprefix("sm_")), ELEMENT_BYTES[dtype]
    found: list[Plan] = []
    for cols in AHEAD:
        edges = cols * size % VECTOR_BYTES != 0
        request = Request(
            dtype, 10**6, cols, edges, contiguous=True, lines=not edges, arch=number,
            multiprocessors=MULTIPROCESSORS,
        )  # fmt: skip
        found.append(select(request, DEFAULT).plan(cols, size, edges))
        found.append(backward_plan(cols, size, edges, number, MULTIPROCESSORS))
    for outer, cols, inner in COLUMNS:
        columns = Columns(outer, cols, inner, cols * inner, inner)
        unit = unit_bytes(size, inner * size)
        found += choose(columns, size, unit, False, number, MULTIPROCESSORS).plans
    return tuple(dict.fromkeys(found))
