"""What runs under ncu: checked first, one call between start and stop, and never a missing row."""

from pathlib import Path

import pandas as pd
import pytest
import torch
import typer

from experiments import profiled
from experiments.counts import watched
from experiments.examine import GpuLost, Outcome, Problem
from experiments.sweeps import Point

POINT = Point("float32", 4, 8)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the profiler's switches and ranges, and the call between them, were asked."""
    log: list[str] = []

    class Switch:
        def __init__(self, text: str = "profiler") -> None:
            self.text = text

        def __enter__(self) -> None:
            log.append(f"on {self.text}")

        def __exit__(self, *error: object) -> None:
            log.append(f"off {self.text}")

    def call(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        assert out.isnan().all()
        log.append("call")
        return out.copy_(torch.softmax(x, dim=1))

    monkeypatch.setattr(torch.cuda.profiler, "profile", Switch)
    monkeypatch.setattr(torch.cuda.nvtx, "range", Switch)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: log.append("wait"))
    monkeypatch.setattr(profiled, "load", lambda name: call)
    return log


def test_one_call_is_watched_in_its_range(seen: list[str]):
    profiled.watch("torch_eager", Problem(POINT, "cpu", 1))
    assert seen == [
        "wait", "on profiler", "on torch_eager float32 4 8", "call", "wait",
        "off torch_eager float32 4 8", "off profiler",
    ]  # fmt: skip


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
    assert (made.status, made.reason) == ("skipped", "the profile's 300 s were over")


def test_every_variant_has_a_row_at_every_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(profiled, "outcome", lambda name, *rest: Outcome("skipped", f"not {name}"))
    profiled.main(tmp_path / "outcomes.csv")
    table = pd.read_csv(tmp_path / "outcomes.csv")
    assert list(table) == ["variant", "dtype", "rows", "cols", "status", "reason"]
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
    assert said.startswith("the GPU stopped answering at copy_torch Point(dtype='float32'")
    assert not (tmp_path / "outcomes.csv").exists()
