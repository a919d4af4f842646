"""What is compiled before the operators are measured: all that compiles, each in its job."""

import pytest

from experiments.family import OPERATORS
from experiments.family.warm import READY, first_calls
from experiments.warm import ONCE


@pytest.mark.parametrize("name", ["sample", "topk_softmax", "columns"])
def test_what_compiles_once_for_all_cases_has_a_job_of_its_own(name: str):
    found = [each.name for each in OPERATORS[name].implementations if each.name not in READY]
    alone = [called for called, _ in first_calls(name, "smoke", 0, "cpu", once=True)]
    others = [called for called, _ in first_calls(name, "smoke", 0, "cpu", once=False)]
    assert set(alone) == set(found) & set(ONCE)
    assert sorted(alone + others) == sorted(found)
    assert bool(alone) == (name != "columns")
