"""What runs under ncu of operators: checked first, one call in its range, and every row."""

import time
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import typer

import kernels
from experiments.examine import GpuLost
from experiments.family import OPERATORS, profiled
from experiments.family.block import Block, Outcome
from experiments.family.counts import IMPLEMENTATIONS, WATCHED, Watched, label, watched
from experiments.family.operator import OURS, TORCH

ALWAYS = float("inf")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases of a smoke run, where large ones are watched."""
    for name in WATCHED:
        monkeypatch.setitem(WATCHED, name, OPERATORS[name].smoke)


@pytest.fixture(autouse=True)
def seen(switched: list[str]) -> list[str]:
    """Where there is no GPU to wait for, every test needs the stand-ins."""
    return switched


def outcomes(name: str, number: int = 0, end: float = ALWAYS) -> list[dict[str, Any]]:
    return list(profiled.outcomes(name, number, 1, end, "cpu"))


@pytest.mark.parametrize("name", WATCHED)
def test_each_right_call_is_watched_once_in_its_range(name: str, seen: list[str]):
    for number in range(len(WATCHED[name])):
        seen.clear()
        rows = outcomes(name, number)
        calls = [Watched(name, each, number) for each in IMPLEMENTATIONS]
        assert rows == [{**call._asdict(), "status": "ok", "reason": ""} for call in calls]
        watched_once = [
            (
                "wait", "on profiler", f"on {label(call)}", "wait", f"off {label(call)}",
                "off profiler",
            )
            for call in calls
        ]  # fmt: skip
        assert seen == [*chain(*watched_once)]


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_what_is_written_over_is_a_copy(
    name: str, seen: list[str], monkeypatch: pytest.MonkeyPatch
):
    call = Watched("cross_entropy", name, 1)
    block = Block(call.operator, "full", 0, 1, "cpu")
    tensors = block.operator.tensors(call.case, "cpu", 1)
    right = Outcome("ok", call=lambda logits, target: logits.zero_())
    monkeypatch.setattr(block, "examine", lambda *_: right)
    assert profiled.outcome(call, block, tensors) == ("ok", "")
    assert f"on {label(call)}" in seen
    # torch's is known to write nothing over, and gets the tensors themselves.
    assert bool(tensors[0].any()) == (name == OURS)


def test_what_is_wrong_is_not_watched(seen: list[str], monkeypatch: pytest.MonkeyPatch):
    right = kernels.topk_softmax
    monkeypatch.setattr(kernels, "topk_softmax", lambda x, k: (right(x, k)[0] * 2, right(x, k)[1]))
    ours, torchs = outcomes("topk_softmax")
    assert ours["status"] == "wrong"
    assert ours["reason"].startswith("row 0") or "relative error" in ours["reason"]
    assert torchs["status"] == "ok"
    assert f"on {label(Watched('topk_softmax', OURS, 0))}" not in seen
    assert f"on {label(Watched('topk_softmax', TORCH, 0))}" in seen


def test_what_fails_before_or_while_it_is_watched_is_a_row(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no launch\nand more")

    with monkeypatch.context() as patch:
        patch.setattr(kernels, "sample", fail)
        assert [row["status"] for row in outcomes("sample")] == ["skipped", "ok"]
    monkeypatch.setattr(profiled, "in_range", fail)
    for row in outcomes("sample"):
        assert (row["status"], row["reason"]) == ("skipped", "RuntimeError: no launch")


def test_where_there_is_no_memory_for_the_tensors_each_row_says_so(
    seen: list[str], monkeypatch: pytest.MonkeyPatch
):
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(profiled, "Block", lambda *_: StandIn(full))
    rows = outcomes("masks")
    assert [row["implementation"] for row in rows] == list(IMPLEMENTATIONS)
    assert {row["status"] for row in rows} == {"skipped"}
    assert all(row["reason"].startswith("out of device memory: ") for row in rows)
    assert seen == []


class StandIn:
    """A block of an operator of which nothing but the tensors is asked."""

    def __init__(self, tensors: Any) -> None:
        self.operator = self
        self.tensors = tensors


def test_after_its_time_nothing_more_is_run(seen: list[str]):
    rows = outcomes("columns", end=time.monotonic() - 1)
    assert [row["reason"] for row in rows] == ["the profile's 900 s were over"] * 2
    assert {row["status"] for row in rows} == {"skipped"}
    assert seen == []


def test_every_call_has_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(profiled, "outcome", lambda call, *_: ("skipped", f"not {label(call)}"))
    monkeypatch.setattr(profiled, "outcomes", partial(profiled.outcomes, device="cpu"))
    profiled.main(tmp_path / "outcomes.csv")
    table = pd.read_csv(tmp_path / "outcomes.csv")
    assert list(table) == [*Watched._fields, "status", "reason"]
    assert table["reason"].tolist() == [f"not {label(call)}" for call in watched()]


def test_a_lost_gpu_ends_the_run_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def lose(*_: Any) -> None:
        raise GpuLost("illegal address")

    monkeypatch.setattr(profiled, "outcomes", partial(profiled.outcomes, device="cpu"))
    monkeypatch.setattr(profiled, "outcome", lose)
    with pytest.raises(typer.Exit) as stopped:
        profiled.main(tmp_path / "outcomes.csv")
    assert stopped.value.exit_code == 1
    said = capsys.readouterr().out
    assert said.startswith("the GPU stopped answering at factors, log, float32 5 x 33: ours: ")
    assert not (tmp_path / "outcomes.csv").exists()
