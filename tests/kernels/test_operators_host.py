"""Operators of the frontier's kernels on this machine: right against float64, in any memory."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from kernels.cuda_compiler import C_TYPES
from kernels.frontier.operators import Causal, Matrix, Operator, matrix
from kernels.frontier.plans import ALIKE, APART, NONE, UNMASKED_REGIMES, VECTOR_BYTES
from kernels.registry import ELEMENT_BYTES
from tests.kernels.frontier_host import KINDS, SHAPES, Kernels, edges_of, layouts

ROWS, HEADS, QUERIES = 12, 2, 3  # 2 x HEADS x QUERIES
NEAR = {kind: 1e-5 if kind == "float32" else 8e-3 for kind in KINDS}


class Given(NamedTuple):
    """An operator, its mask, and x as it goes into a softmax, before what becomes of results."""

    operator: Operator
    mask: Tensor | None
    x: Tensor


def _factors(x: Tensor, operator: Operator) -> Iterator[Given]:
    yield Given(operator, None, x.double() * operator.times)


def _causal(x: Tensor, operator: Operator) -> Iterator[Given]:
    cols = x.shape[1]
    query = torch.arange(ROWS)[:, None] % QUERIES
    # Some rows see nothing, some all.
    for more in (-1, 1, cols // 2, cols - 1):
        hidden = torch.arange(cols) >= query + more
        yield Given(
            replace(operator, mask=Causal(QUERIES, more)), None,
            (x.double() * operator.times).masked_fill(hidden, -torch.inf),
        )  # fmt: skip


def _masks(x: Tensor, dtype: torch.dtype) -> Iterator[tuple[Matrix, Tensor, Tensor]]:
    """Masks that lie in several ways: what is said of them, they, and their value at each of x."""
    cols = x.shape[1]
    for shape, offset, step in (
        ((2, HEADS, QUERIES), 0, 1), ((1, 1, QUERIES), 1, 1), ((2, 1, 1), 0, 1),
        ((1, HEADS, 1), 3, 2), ((2, HEADS, QUERIES), 0, 0),
    ):  # fmt: skip
        memory = torch.rand(*shape, 2 * cols + 8) * 2 - 1
        memory = memory < 0.5 if dtype == torch.bool else memory.to(dtype)
        last = slice(offset, offset + step * cols, step) if step else slice(1)
        wide = memory[..., last].expand(2, HEADS, QUERIES, cols)
        told = matrix(wide.shape, wide.stride(), dtype == torch.bool)
        assert told is not None
        yield told, wide, wide.reshape(ROWS, cols)


def _chosen(x: Tensor, operator: Operator) -> Iterator[Given]:
    for told, mask, seen in _masks(x, torch.bool):
        left = (x.double() * operator.times).masked_fill(~seen, -torch.inf)
        yield Given(replace(operator, mask=told), mask, left)


def _added(x: Tensor, operator: Operator) -> Iterator[Given]:
    for told, mask, added in _masks(x, x.dtype):
        both = x.double() * operator.times + added.double()
        yield Given(replace(operator, mask=told), mask, both.to(x.dtype).double())


BOTH, LOG_OF_BOTH = Operator(times=0.375, after=-3.0), Operator(True, 0.375, -3.0)
Case = tuple[Callable[[Tensor, Operator], Iterator[Given]], Operator]
CASES: dict[str, Case] = {
    "log": (_factors, Operator(log=True)),
    "factors": (_factors, BOTH),
    "log of factors": (_factors, LOG_OF_BOTH),
    "causal": (_causal, BOTH),
    "chosen": (_chosen, BOTH),
    "added": (_added, BOTH),
    "log of added": (_added, LOG_OF_BOTH),
}


def _of(case: str, cols: int, told: str) -> str:
    return f"{case}, {cols} columns: {told}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SHAPES)
def test_operators_are_right_in_any_memory(name: str, kind: str, tmp_path: Path):
    shape, widths = SHAPES[name]
    dtype, size = getattr(torch, kind), ELEMENT_BYTES[kind]
    cases = {
        case: made
        for case, made in CASES.items()
        if made[0] is _factors or shape.regime not in UNMASKED_REGIMES
    }
    plans = {}
    for cols, edges, case in product(widths[1:3], (NONE, ALIKE, APART), cases):
        made, operator = cases[case]
        if edges or cols * size % VECTOR_BYTES == 0:
            first = next(made(torch.zeros(ROWS, cols, dtype=dtype), operator))
            given = first.operator.types(C_TYPES[kind])
            plans[cols, edges, case] = replace(shape.plan(cols, size, edges), given=given)
    kernels = Kernels(shape, kind, plans.values(), tmp_path)
    for cols, case in product(widths[1:3], cases):
        made, operator = cases[case]
        for n, (x, out, around_x, memory) in enumerate(layouts(ROWS, cols, dtype)):
            kernels.watch(x, around_x)
            plan = plans[cols, edges_of(x, out), case]
            for i, given in enumerate(made(x, operator)):
                if i and (n + i) % 3:
                    continue
                out.fill_(torch.nan)
                kernels.run(plan, x, out, given.operator, given.mask)
                softmax = torch.log_softmax if operator.log else torch.softmax
                torch.testing.assert_close(
                    out.double(), softmax(given.x, -1) * operator.after, rtol=NEAR[kind],
                    atol=2e-5 if operator.log else 1e-30, equal_nan=True,
                    msg=partial(_of, case, cols),
                )  # fmt: skip
                out.fill_(7.0)
                assert bool((memory == 7.0).all()), (case, cols, x.stride())
    assert kernels.faults() == {"misaligned": 0, "outside": 0, "beyond": 0}


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_is_refused_where_columns_are_not_known(kind: str, tmp_path: Path, capfd):
    shape, (cols, *_) = SHAPES["staged"]
    plan = shape.plan(cols, ELEMENT_BYTES[kind], ALIKE)
    given = Operator(mask=Causal(1, 1)).types(C_TYPES[kind])
    with pytest.raises(subprocess.CalledProcessError):
        Kernels(shape, kind, [replace(plan, given=given)], tmp_path)
    assert "not as in a mask" in capfd.readouterr().err
