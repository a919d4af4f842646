"""What a block does with implementations, on the CPU and on stand-ins for a GPU's timers."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pandas as pd
import pytest
import torch
from torch import Tensor

from experiments import timer
from experiments.examine import GpuLost
from experiments.family import block
from experiments.family.block import CRASHES, Block, Crash
from experiments.family.operator import (
    ANOTHER_MACHINE,
    LOST,
    OF_WAITS,
    SAMPLES,
    Case,
    Error,
    Implementation,
    Operator,
    Refused,
    in_rows,
)
from experiments.family.tables import CASE, read_raw
from experiments.nvml import Reading
from kernels.launch import Unavailable

FACTS = {"source": "local-cpu", "gpu": "none"}
SMALL, LARGE = in_rows("twice", "float32", 2, 4), in_rows("twice", "float32", 3, 8)


def tensors(case: Case, device: str, seed: int) -> tuple[Tensor, ...]:
    x = torch.arange(1.0, 1 + case.elements).view(case.rows, case.cols)
    return x, torch.empty_like(x)


def error(case: Case, given: tuple[Tensor, ...], result: Any) -> Error:
    return Error(float((result - 2 * given[0]).abs().max().nan_to_num(nan=torch.inf)), 1e-6)


def twice(x: Tensor, out: Tensor) -> Tensor:
    return torch.mul(x, 2, out=out)


def implementation(name: str, call=twice, **keys: Any) -> Implementation:
    return Implementation(name, lambda case, device: call, **keys)


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "sha256_of", lambda name: "c" * 64)
    monkeypatch.setattr(block, "commit", lambda: "a" * 40)
    monkeypatch.setattr(block, "raise_if_lost", lambda error, device: None)


def of(*others: Implementation, cases: tuple[Case, ...] = (SMALL,)) -> Operator:
    return Operator(
        cases=cases, quick=cases, smoke=cases, tensors=tensors, outputs=1, error=error,
        n_bytes=lambda case: 2 * case.tensor_bytes, code=(),
        implementations=(implementation("ours"), implementation("torch"), *others),
    )  # fmt: skip


def run(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, device: str = "cpu", number: int = 0,
    crashes: tuple[Crash, ...] = (), mode: str = "smoke",
) -> pd.DataFrame:  # fmt: skip
    monkeypatch.setattr(block, "operator_of", lambda name: operator)
    return Block("twice", mode, number, 1, device).run(crashes, FACTS)


def only(table: pd.DataFrame, name: str) -> pd.Series:
    """The row of an implementation that was not timed."""
    mine = table[table["implementation"] == name]
    assert len(mine) == 1
    return mine.iloc[0]


def test_every_sample_of_what_is_right_is_a_row(monkeypatch: pytest.MonkeyPatch):
    table = run(of(cases=(SMALL, LARGE)), monkeypatch)
    assert len(table) == 2 * 2 * SAMPLES["smoke"]
    assert set(table["status"]) == {"ok"}
    assert set(table["timer"]) == {"host"}
    assert set(table["error"]) == {0.0}
    assert set(table["ideal_bytes"]) == {64, 192}
    assert set(zip(table["shape"], table["rows"], table["cols"], strict=True)) == {
        ("2x4", 2, 4), ("3x8", 3, 8),
    }  # fmt: skip


def test_what_is_wrong_has_its_error_and_no_time(monkeypatch: pytest.MonkeyPatch):
    wrong = implementation("wrong", lambda x, out: torch.mul(x, 2.5, out=out))
    row = only(run(of(wrong), monkeypatch), "wrong")
    assert (row["status"], row["timer"], row["error"]) == ("wrong", "none", 4.0)
    assert row["reason"] == "relative error 4 exceeds 1e-06"
    assert pd.isna(row["time_ns"])


def test_an_output_that_nobody_writes_is_seen(monkeypatch: pytest.MonkeyPatch):
    idle = implementation("idle", lambda x, out: out)
    # After those that wrote the right result there.
    assert only(run(of(idle), monkeypatch), "idle")["status"] == "wrong"


def test_an_input_that_is_changed_is_wrong_and_made_anew(monkeypatch: pytest.MonkeyPatch):
    def spoil(x: Tensor, out: Tensor) -> Tensor:
        twice(x, out)
        x.add_(1)
        return out.add_(2)

    after = implementation("after")
    table = run(of(implementation("spoil", spoil), after), monkeypatch)
    assert only(table, "spoil")["reason"] == "it changed its input"
    assert set(table.loc[table["implementation"] == "after", "status"]) == {"ok"}


def test_what_overwrites_gets_copies(monkeypatch: pytest.MonkeyPatch):
    in_place = implementation("in place", lambda x, out: x.mul_(2), overwrites=True)
    table = run(of(in_place), monkeypatch)
    assert set(table["status"]) == {"ok"}


def test_what_gives_something_else_for_equal_inputs_is_wrong(monkeypatch: pytest.MonkeyPatch):
    calls: list[int] = []

    def drifting(x: Tensor, out: Tensor) -> Tensor:
        calls.append(1)
        return x * 2 + 1e-7 * len(calls)

    table = run(of(implementation("drifting", drifting, repeats=True)), monkeypatch)
    assert only(table, "drifting")["reason"] == "it gives something else for equal inputs"
    again = run(of(implementation("steady", repeats=True)), monkeypatch)
    assert set(again["status"]) == {"ok"}


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (Refused("not of this kind"), "not of this kind"),
        (Unavailable("it needs nvcc"), "it needs nvcc"),
        (ModuleNotFoundError("No module named 'peer'"), "it needs what is not installed: No mod"),
        (RuntimeError("no such kernel\nand more"), "RuntimeError: no such kernel"),
    ],
)
def test_what_cannot_run_is_skipped_with_its_reason(
    raised: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
):
    def prepare(case: Case, device: str):
        raise raised

    row = only(run(of(Implementation("other", prepare)), monkeypatch), "other")
    assert row["status"] == "skipped"
    assert row["reason"].startswith(reason)
    assert "\n" not in row["reason"]


def test_another_question_is_judged_by_its_own_check_and_bytes(monkeypatch: pytest.MonkeyPatch):
    copy = implementation(
        "copy_torch", lambda x, out: out.copy_(x), n_bytes=lambda case: 7,
        error=lambda case, given, result: Error(float((result - given[0]).abs().max()), 0.0),
    )  # fmt: skip
    table = run(of(copy), monkeypatch)
    mine = table[table["implementation"] == "copy_torch"]
    assert set(mine["status"]) == {"ok"}
    assert set(mine["ideal_bytes"]) == {7}


def test_what_took_the_gpu_away_is_not_asked_again(monkeypatch: pytest.MonkeyPatch):
    crash = Crash("ours", str(SMALL), "illegal address")
    table = run(of(cases=(SMALL, LARGE)), monkeypatch, crashes=(crash,))
    ours = table[table["implementation"] == "ours"].set_index("shape")
    assert ours.loc["2x4", "reason"] == "took the GPU away in an earlier run: illegal address"
    assert set(ours.loc["3x8", "status"]) == {"ok"}


def test_orders_follow_from_the_seed_and_the_block(monkeypatch: pytest.MonkeyPatch):
    some = of(*(implementation(f"other {n}") for n in range(4)), cases=(SMALL, LARGE))

    def orders(number: int) -> list[list[Any]]:
        table = run(some, monkeypatch, number=number)
        return table[["implementation", "shape", "sample", "order"]].to_numpy().tolist()

    assert orders(0) == orders(0)
    assert orders(0) != orders(1)


# --- On a GPU's stand-ins ---------------------------------------------------------------------


class FakeTimer:
    """Times are a count of samples; ``fail`` is raised by the sample of that number."""

    fail: ClassVar[dict[int, Exception]] = {}
    made: ClassVar[list["FakeTimer"]] = []
    samples = 0

    def __init__(self, fn: Any, pairs: Any, flush: Any, estimate_ns: float, graph: bool) -> None:
        self.pairs, self.name, self.slow = pairs, "graph" if graph else "events", False
        self.result = fn(*pairs[0])
        FakeTimer.made.append(self)

    def sample(self) -> float:
        FakeTimer.samples += 1
        if failure := FakeTimer.fail.get(FakeTimer.samples):
            raise failure
        return float(FakeTimer.samples)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = SimpleNamespace(latest=Reading(1980.0, 2619.0, 350.0, 41.0, 0.0, 0.0))
    monkeypatch.setattr(block, "Sampler", lambda uuid: nullcontext(sampler))
    properties = SimpleNamespace(uuid="0", L2_cache_size=64)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: properties)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 1000)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 1300)
    for name in ("reset_peak_memory_stats", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(Block, "_sampler", lambda self: nullcontext())
    monkeypatch.setattr(timer, "estimate_ns", lambda fn, pair: fn(*pair) is None or 50.0)
    monkeypatch.setattr(timer, "REPLAY_BYTES", 400)
    monkeypatch.setattr(timer, "Flush", lambda device: None)
    monkeypatch.setattr(timer, "DeviceTimer", FakeTimer)
    for name, value in (("samples", 0), ("fail", {}), ("made", [])):
        monkeypatch.setattr(FakeTimer, name, value)


@pytest.mark.usefixtures("gpu")
def test_device_times_are_of_copies_that_the_l2_does_not_hold(monkeypatch: pytest.MonkeyPatch):
    in_place = implementation("in place", lambda x, out: x.mul_(2), overwrites=True, graph=False)
    table = run(of(in_place), monkeypatch, "cuda")
    by_name = table.groupby("implementation")["timer"].unique().str[0]
    assert by_name.to_dict() == {"in place": "events", "ours": "graph", "torch": "graph"}
    assert set(table["l2"]) == {"cold"}
    assert set(table["extra_bytes"]) == {300.0}
    # 400 bytes in pairs of 64, each in memory of its own; what overwrites has others again.
    counts = {len(each.pairs) for each in FakeTimer.made}
    assert counts == {7}
    places = [{t.data_ptr() for given, _ in each.pairs for t in given} for each in FakeTimer.made]
    assert all(len(some) == 14 for some in places)
    apart = next(n for n, each in enumerate(FakeTimer.made) if each.name == "events")
    others = [some for n, some in enumerate(places) if n != apart]
    assert others[0] == others[1]
    assert not others[0] & places[apart]


@pytest.mark.usefixtures("gpu")
def test_samples_are_taken_in_turns(monkeypatch: pytest.MonkeyPatch):
    table = run(of(implementation("other")), monkeypatch, "cuda").sort_values("time_ns")
    assert table["order"].tolist() == [0, 1, 2] * SAMPLES["smoke"]
    for _, turn in table.groupby("sample"):
        assert set(turn["implementation"]) == {"ours", "torch", "other"}


@pytest.mark.usefixtures("gpu")
def test_an_operator_of_calls_is_timed_as_callers_wait(monkeypatch: pytest.MonkeyPatch):
    class Calls(FakeTimer):
        def __init__(self, fn: Any, pair: Any, flush: Any) -> None:
            super().__init__(fn, [pair], flush, 0.0, True)
            self.name = "call"

    monkeypatch.setattr(timer, "CallTimer", Calls)
    table = run(replace(of(), waits=True), monkeypatch, "cuda")
    assert set(table["timer"]) == {"call"}
    assert table.loc[table["status"] == "ok", "time_ns"].is_unique
    assert len(FakeTimer.made) == len(of().implementations)
    # Each is called on the tensors that it was checked on: nothing is copied for it.
    assert len({given[0].data_ptr() for each in FakeTimer.made for given, _ in each.pairs}) == 1


@pytest.mark.usefixtures("gpu")
def test_a_full_run_has_more_samples_of_waits(monkeypatch: pytest.MonkeyPatch):
    assert OF_WAITS * SAMPLES["full"] == 25
    monkeypatch.setattr(
        timer, "CallTimer", lambda fn, pair, flush: FakeTimer(fn, [pair], flush, 0, True)
    )
    for waits, times in ((False, 1), (True, OF_WAITS)):
        for mode in SAMPLES:
            table = run(replace(of(), waits=waits), monkeypatch, "cuda", mode=mode)
            expected = SAMPLES[mode] * (times if mode == "full" else 1)
            assert (table.groupby("implementation").size() == expected).all(), (waits, mode)


@pytest.mark.usefixtures("gpu")
def test_no_memory_for_one_leaves_the_others(monkeypatch: pytest.MonkeyPatch):
    class Full(FakeTimer):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            if self.name == "events":
                raise torch.OutOfMemoryError

    monkeypatch.setattr(timer, "DeviceTimer", Full)
    table = run(of(implementation("hungry", graph=False)), monkeypatch, "cuda")
    assert only(table, "hungry")["reason"].startswith("out of device memory: the input alone takes")
    assert set(table.loc[table["implementation"] == "ours", "status"]) == {"ok"}


@pytest.mark.usefixtures("gpu")
def test_a_lost_gpu_is_recorded_with_what_lost_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def lost(error: Exception, device: str) -> None:
        raise GpuLost(str(error))

    monkeypatch.setattr(block, "operator_of", lambda name: of())
    monkeypatch.setattr(block, "raise_if_lost", lost)
    monkeypatch.setattr(block, "collect", lambda *_: FACTS)
    monkeypatch.setattr(FakeTimer, "fail", {2: RuntimeError("illegal address")})
    out = tmp_path / "block-0.csv.gz"
    with pytest.raises(SystemExit) as ended:
        block.measure_block("twice", "smoke", 0, 1, "cuda", FACTS, out, tmp_path / "log")
    assert ended.value.code == LOST
    assert not out.exists()
    (crash,) = block.read_crashes(tmp_path / CRASHES)
    assert crash.implementation in ("ours", "torch")
    assert (crash.case, crash.reason) == (str(SMALL), "illegal address")


class Ended(Exception):
    """In place of the process's end."""


def test_what_does_not_end_is_recorded_and_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def ended(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr(block, "operator_of", lambda name: of())
    monkeypatch.setattr(block.os, "_exit", ended)
    clock = iter(range(1000))
    stuck = Block("twice", "smoke", 0, 1, "cpu")
    stuck.current, stuck.since = ("ours", str(SMALL)), 0.0
    monkeypatch.setattr(stuck.done, "wait", lambda seconds: False)
    monkeypatch.setattr(block.time, "monotonic", lambda: float(next(clock)))
    with pytest.raises(Ended, match=str(LOST)):
        block.watch(stuck, tmp_path / CRASHES)
    (crash,) = block.read_crashes(tmp_path / CRASHES)
    assert crash == Crash("ours", str(SMALL), "no end within 300 s")
    assert next(clock) > block.PATIENCE_S
    monkeypatch.undo()
    stuck.done.set()
    block.watch(stuck, tmp_path / CRASHES)  # which ends at once


def test_another_machine_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        block.measure_block(
            "sample", "smoke", 0, 1, "cpu", FACTS, tmp_path / "block-0.csv.gz", tmp_path / "log"
        )
    assert ended.value.code == ANOTHER_MACHINE
    assert "describes another GPU, driver, environment or seed" in capsys.readouterr().err


def test_a_block_is_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(block, "operator_of", lambda name: of())
    monkeypatch.setattr(block, "collect", lambda *_: FACTS)
    out = tmp_path / "block-0.csv.gz"
    block.measure_block("twice", "smoke", 0, 1, "cpu", FACTS, out, tmp_path / "log")
    table = read_raw(out)
    assert not table[CASE].isna().any().any()
    assert set(table["implementation"]) == {"ours", "torch"}
