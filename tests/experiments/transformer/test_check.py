"""What is checked before training: both sets pass, and each mistake is named."""

import pytest
import torch

from experiments.transformer.check import WrongOperator, check
from experiments.transformer.operators import Operators
from tests.experiments.transformer.small import SETS, WRONG


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("operators", SETS, ids=[o.name for o in SETS])
def test_both_sets_pass(operators: Operators, dtype: torch.dtype):
    check(operators, "cpu", dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("what", "operators"), WRONG)
def test_a_mistake_is_named(what: str, operators: Operators, dtype: torch.dtype):
    with pytest.raises(WrongOperator, match=f"^{what} of 'torch' is wrong: "):
        check(operators, "cpu", dtype)
