"""What an A100 would launch gives what every GPU's kernels have to: the tests of those, of its."""

import pytest
import torch

from experiments.check import check
from kernels.frontier import frontier
from kernels.registry import DTYPES
from tests.gpu import (
    test_choice,
    test_columns,
    test_cross_entropy,
    test_frontier,
    test_operators,
)
from tests.gpu.ampere import as_an_a100

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("hopper")]

# Rows and columns of each regime that an A100 has: whole vectors, and not.  Where edges or smaller
# elements are, some go another way.
ROWS = {
    "warp": ((300, 1), (300, 7), (70, 256)),
    "block": ((129, 1000), (64, 4097), (9, 20_000)),
    "grid": ((3, 131_072), (1, 300_001)),
    "stream": ((150, 70_001), (109, 131_072)),
}
KINDS = [getattr(torch, dtype) for dtype in DTYPES]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("regime", ROWS)
def test_rows_are_right_in_any_memory_and_nothing_else_is_written(regime: str, dtype: str):
    kind = getattr(torch, dtype)
    for rows, cols in ROWS[regime]:
        with as_an_a100() as plans:
            for name, x, out, memory in test_frontier.layouts(rows, cols, kind):
                for invariant in (False, True):
                    frontier.softmax(x, out.fill_(torch.nan), invariant)
                    verdict = check(x, out)
                    assert verdict.ok, (name, cols, invariant, verdict.reason)
                out.fill_(7.0)
                assert bool((memory == 7.0).all()), (name, cols)
        assert regime in {plan.shape.regime for plan in plans} <= set(ROWS), cols


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cols", [63, 12_257, 131_072])
def test_operators_are_right(cols: int, dtype: str):
    with as_an_a100() as plans:
        test_operators.test_the_kernel_that_is_chosen_takes_every_operator(cols, dtype)
    assert plans
    assert all(plan.given for plan in plans)
    assert {plan.shape.regime for plan in plans} <= set(ROWS)


@pytest.mark.parametrize("dtype", DTYPES)
# Lanes, blocks of some warps and of the most threads, and rows that are streamed.
@pytest.mark.parametrize("cols", [63, 8192, 12_257, 50_257])
def test_gradients_are_right(cols: int, dtype: str):
    with as_an_a100() as plans:
        test_operators.test_an_operators_gradient_is_right(cols, dtype)
    assert plans
    assert all(plan.given for plan in plans)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(1, 2048, 512), (1, 70_001, 256), (3, 1000, 7)], ids=str)
def test_columns_are_right(shape: tuple[int, int, int], dtype: torch.dtype):
    with as_an_a100() as plans:
        test_columns.test_columns_are_right_in_any_memory_and_nothing_else_is_written(shape, dtype)
    assert plans


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("cols", [63, 4097, 50_257])
def test_losses_are_right(cols: int, dtype: torch.dtype):
    with as_an_a100() as plans:
        test_cross_entropy.test_losses_and_gradients_are_right_in_any_memory(cols, dtype)
    assert plans


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_the_largest_and_samples_are_right(dtype: torch.dtype):
    with as_an_a100() as plans:
        for shape in ((1, 131_072), (9, 7)):
            test_choice.test_topk_is_exact_and_stable(shape, dtype)
        for top_k, top_p in ((None, None), (50, None), (None, 0.9), (1000, 0.7)):
            test_choice.test_ids_are_those_of_the_cpu(top_k, top_p, dtype)
    assert plans
