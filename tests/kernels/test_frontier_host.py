"""The frontier's kernels, run by this machine's compiler: any memory, nothing written around it."""

from pathlib import Path

import pytest
import torch

from kernels.frontier.plans import ALIKE, APART, NONE, VECTOR_BYTES
from kernels.registry import ELEMENT_BYTES
from tests.kernels.frontier_host import KINDS, SHAPES, Kernels, edges_of, layouts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SHAPES)
def test_a_kernel_is_right_in_any_memory_and_writes_nothing_else(
    name: str, kind: str, tmp_path: Path
):
    shape, widths = SHAPES[name]
    dtype, size, rows = getattr(torch, kind), ELEMENT_BYTES[kind], 9
    plans = {
        (cols, edges): shape.plan(cols, size, edges)
        for cols in widths
        for edges in (NONE, ALIKE, APART)
        if edges or cols * size % VECTOR_BYTES == 0
    }
    kernels = Kernels(shape, kind, plans.values(), tmp_path)
    for cols in widths:
        seen = set()
        for x, out, around_x, memory in layouts(rows, cols, dtype):
            edges = edges_of(x, out)
            seen.add(edges)
            out.fill_(torch.nan)
            kernels.watch(x, around_x)
            kernels.run(plans[cols, edges], x, out)
            near = 1e-5 if kind == "float32" else 8e-3
            exact = torch.softmax(x.double(), -1)
            torch.testing.assert_close(out.double(), exact, atol=1e-30, rtol=near)
            out.fill_(7.0)
            assert bool((memory == 7.0).all()), (cols, x.stride())
        assert seen >= {ALIKE, APART}
    assert kernels.faults() == {"misaligned": 0, "outside": 0, "beyond": 0}
