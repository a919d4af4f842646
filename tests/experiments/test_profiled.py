"""What runs under ncu: checked first, one call between start and stop, and never a missing row."""

from pathlib import Path

import pandas as pd
import pytest
import torch
import typer

from experiments import profiled
from experiments.counts import watched
from experiments.examine import GpuLost, Outcome, Problem, examine
from experiments.layout import CONTIGUOUS, Place
from experiments.sweeps import Point
from kernels.registry import variant

POINT = Point("float32", 4, 8)
SLICED = Place(*POINT, "sliced input")


@pytest.fixture
def seen(switched: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The same, and the call between them."""

    def call(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        assert out.isnan().all()
        switched.append("call")
        return out.copy_(torch.softmax(x, dim=1))

    monkeypatch.setattr(profiled, "load", lambda name: call)
    return switched


def test_one_call_is_watched_in_its_range(seen: list[str]):
    profiled.watch("torch_eager", Problem(POINT, "cpu", 1))
    assert seen == [
        "wait", "on profiler", "on torch_eager float32 4 8 contiguous", "call", "wait",
        "off torch_eager float32 4 8 contiguous", "off profiler",
    ]  # fmt: skip


def test_a_backward_pass_is_launched_from_the_thread_of_the_range(seen: list[str]):
    within: list[bool] = []
    at_first = torch.autograd.is_multithreading_enabled()
    profiled.in_range("it", lambda: within.append(torch.autograd.is_multithreading_enabled()))
    assert within == [False]
    assert torch.autograd.is_multithreading_enabled() == at_first
    assert seen == ["wait", "on profiler", "on it", "wait", "off it", "off profiler"]


def test_rows_are_watched_as_their_layout_has_them(seen: list[str]):
    problem = profiled.problem_at(SLICED, "cpu", 1)
    profiled.watch("torch_eager", problem)
    assert "on torch_eager float32 4 8 sliced input" in seen
    reference, out = problem.fresh(variant("torch_eager"))
    assert isinstance(out, torch.Tensor)
    assert (reference.x.stride(), reference.x.storage_offset()) == ((9, 1), 1)
    assert (out.stride(), out.storage_offset()) == ((8, 1), 0)
    assert not reference.x.isnan().any()
    assert out.isnan().all()


def test_what_is_wrong_in_a_layout_is_not_watched(monkeypatch: pytest.MonkeyPatch):
    def contiguous(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Takes the rows for ones that follow one another."""
        rows = x.as_strided(x.shape, (x.shape[1], 1))
        return out.copy_(torch.softmax(rows, dim=1))

    monkeypatch.setattr("experiments.examine.load", lambda name: contiguous)
    for place, status in ((Place(*POINT), "ok"), (SLICED, "wrong")):
        assert examine("torch_eager", profiled.problem_at(place, "cpu", 1)).status == status


def test_contiguous_rows_are_those_of_every_measurement():
    assert type(profiled.problem_at(Place(*POINT, CONTIGUOUS), "cpu", 1)) is Problem


@pytest.mark.parametrize(
    ("found", "status", "reason"),
    [
        (Outcome("ok", estimate_ns=1e3), "ok", ""),
        (Outcome("wrong", "relative error 1"), "wrong", "relative error 1"),
        (Outcome("skipped", "needs a package"), "skipped", "needs a package"),
        (Outcome("ok", estimate_ns=4e9), "skipped", "too slow: 4 s a call, the limit of a profile"),
    ],
)
def test_only_what_is_right_and_in_time_is_watched(
    found: Outcome, status: str, reason: str, seen: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(profiled, "examine", lambda name, problem: found)
    made = profiled.outcome("torch_eager", Problem(POINT, "cpu", 1), 1.0)
    assert made.status == status
    assert made.reason.startswith(reason)
    assert ("call" in seen) == (status == "ok")


def test_a_call_that_fails_is_a_row(monkeypatch: pytest.MonkeyPatch):
    def fail(name: str, problem: Problem) -> None:
        raise RuntimeError("no launch")

    monkeypatch.setattr(profiled, "examine", lambda name, problem: Outcome("ok", estimate_ns=1.0))
    monkeypatch.setattr(profiled, "watch", fail)
    made = profiled.outcome("torch_eager", Problem(POINT, "cpu", 1), 1.0)
    assert (made.status, made.reason) == ("skipped", "RuntimeError: no launch")


def test_after_its_time_nothing_more_is_run():
    made = profiled.outcome("torch_eager", Problem(POINT, "cpu", 1), -1.0)
    assert (made.status, made.reason) == ("skipped", "the profile's 900 s were over")


def test_every_variant_has_a_row_at_every_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(profiled, "outcome", lambda name, *rest: Outcome("skipped", f"not {name}"))
    profiled.main(tmp_path / "outcomes.csv")
    table = pd.read_csv(tmp_path / "outcomes.csv")
    assert list(table) == ["variant", "dtype", "rows", "cols", "layout", "status", "reason"]
    assert len(table) == sum(map(len, watched().values()))
    assert (table["reason"] == "not " + table["variant"]).all()


def test_a_lost_gpu_ends_the_run_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def lose(name: str, *rest: object) -> Outcome:
        raise GpuLost("illegal address")

    monkeypatch.setattr(profiled, "outcome", lose)
    with pytest.raises(typer.Exit) as stopped:
        profiled.main(tmp_path / "outcomes.csv")
    assert stopped.value.exit_code == 1
    said = capsys.readouterr().out
    assert said.startswith("the GPU stopped answering at copy_torch Place(dtype='float32'")
    assert not (tmp_path / "outcomes.csv").exists()
