"""What is compiled before the operators are measured: all that compiles, each in its job."""

from pathlib import Path

import pytest
import typer

from experiments.family import OPERATORS
from experiments.family.warm import READY, WAITING, first_calls, main, warm
from experiments.warm import ONCE


@pytest.mark.parametrize("name", ["sample", "topk_softmax", "columns"])
def test_what_compiles_once_for_all_cases_has_a_job_of_its_own(name: str):
    found = [each.name for each in OPERATORS[name].implementations if each.name not in READY]
    alone = [called for called, _ in first_calls(name, "smoke", 0, "cpu", once=True)]
    others = [called for called, _ in first_calls(name, "smoke", 0, "cpu", once=False)]
    assert set(alone) == set(found) & set(ONCE)
    assert sorted(alone + others) == sorted(found)
    assert bool(alone) == (name != "columns") == (name in WAITING)


def test_what_compiles_once_is_asked_for_by_its_operator_and_waited_for_by_no_other():
    asked = {n: [call["implementation"] for call in warm("smoke", "cpu", n)] for n in WAITING}
    assert all(set(names) and set(names) <= set(ONCE) for names in asked.values())
    others = list(warm("smoke", "cpu"))
    assert {call["operator"] for call in others} == set(OPERATORS)
    assert not {call["implementation"] for call in others} & set(ONCE)


def test_an_operator_without_such_a_peer_is_refused(tmp_path: Path):
    with pytest.raises(typer.BadParameter, match="'columns' has no such peer; known: topk_softmax"):
        main(tmp_path / "once.csv", "smoke", "cpu", "columns")
    assert not list(tmp_path.iterdir())
