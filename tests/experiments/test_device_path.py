"""What a block does with a GPU's timers, on stand-ins for them."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from experiments import block, timer
from experiments.block import CRASHES, Block, read_crashes
from experiments.examine import GpuLost, Outcome
from experiments.nvml import Reading
from experiments.sweeps import Point
from experiments.sweeps.sweep import AGAIN, Sweep
from kernels.outputs import TopK

POINT = Point("float32", 2, 4)
READING = Reading(1980.0, 2619.0, 350.0, 41.0, 4.0, 1.0)
ESTIMATE_NS = {"copy_torch": 1e3, "torch_eager": 1e3, "torch_naive": 5e7}


class FakeSampler(nullcontext[None]):
    latest = READING

    def __init__(self, uuid: str) -> None:
        super().__init__()
        self.held = nullcontext


class FakeTimer:
    """Times are a count of samples; ``fail`` is raised by the sample of that number."""

    fail: ClassVar[dict[int, Exception]] = {}
    samples = 0

    def __init__(
        self, fn: Any, pairs: Sequence[Any], flush: Any, estimate_ns: float, graph: bool
    ) -> None:
        self.name = "graph" if graph else "events"
        self.slow = estimate_ns > timer.REPLAY_NS

    def sample(self) -> float:
        FakeTimer.samples += 1
        if error := FakeTimer.fail.get(FakeTimer.samples):
            raise error
        return float(FakeTimer.samples)


def pairs(point: Point, device: str, seed: int) -> Sequence[timer.Pair]:
    x = torch.zeros(point.rows, point.cols)
    return [(x, torch.empty_like(x))]


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = Sweep(
        rows=(2,), cols=(4,), dtypes=("float32",), variants=tuple(ESTIMATE_NS),
        timers=("graph", "call"),
    )  # fmt: skip
    monkeypatch.setattr(block, "sweep", lambda name: sweep)
    monkeypatch.setattr(
        block, "examine", lambda name, *_: Outcome("ok", "", 1e-7, ESTIMATE_NS[name])
    )
    monkeypatch.setattr(block, "Sampler", FakeSampler)
    monkeypatch.setattr(block, "raise_if_lost", lambda error, device: None)
    monkeypatch.setattr(block, "environment_sha256", lambda facts: "b" * 64)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: SimpleNamespace(uuid="0"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**30, 2**31))
    monkeypatch.setattr(timer, "buffers", pairs)
    monkeypatch.setattr(timer, "Flush", lambda device: None)
    monkeypatch.setattr(timer, "DeviceTimer", FakeTimer)
    monkeypatch.setattr(timer, "call_ns", lambda fn, pair, flush: 7.0)
    monkeypatch.setattr(FakeTimer, "samples", 0)
    monkeypatch.setattr(FakeTimer, "fail", {})


def run():
    return Block("small_batch", "full", 0, 1, "cuda").run((), {})


def test_each_sample_is_a_row_with_its_reading():
    table = run()
    device = table[table["timer"] == "graph"]
    assert sorted(device["time_ns"]) == list(range(1, FakeTimer.samples + 1))
    assert set(device["l2"]) == {"cold"}
    assert (table["sm_clock_mhz"] == 1980).all()
    assert (table["throttle_mask"] == 4).all()
    assert (table["other_processes"] == 1).all()


def test_a_top_k_gets_outputs_of_its_own_and_the_others_share(monkeypatch: pytest.MonkeyPatch):
    seen: list[Sequence[timer.Pair]] = []

    class Recording(FakeTimer):
        def __init__(self, fn: Any, pairs: Sequence[Any], *others: Any) -> None:
            super().__init__(fn, pairs, *others)
            seen.append(pairs)

    names = ("copy_torch", "torch_eager", "torch_topk_2")
    tops = Sweep(
        rows=(2,), cols=(4,), dtypes=("float32",), variants=names, timers=("graph", "call")
    )
    monkeypatch.setattr(block, "sweep", lambda name: tops)
    monkeypatch.setattr(block, "examine", lambda *_: Outcome("ok", "", 1e-7, 1e3))
    monkeypatch.setattr(timer, "DeviceTimer", Recording)
    called: list[timer.Pair] = []
    monkeypatch.setattr(timer, "call_ns", lambda fn, pair, flush: called.append(pair) or 7.0)
    run()
    (small,) = (pairs for pairs in seen if isinstance(pairs[0][1], TopK))
    first, second, third = (pairs for pairs in seen if pairs is not small)
    assert first is second is third
    assert small[0][0] is first[0][0]
    assert small[0][1][0].shape == (2, 2)
    assert {type(pair[1]) for pair in called} == {torch.Tensor, TopK}


def test_slow_variants_get_fewer_samples():
    counts = run().groupby(["timer", "variant"]).size()
    for entry in ("copy_torch", "torch_eager", "torch_eager" + AGAIN):
        assert counts["graph", entry] == block.SAMPLES["full"]
        assert counts["call", entry] == block.CALLS["full"]
    assert counts["graph", "torch_naive"] == block.SLOW_SAMPLES
    assert counts["call", "torch_naive"] == block.SLOW_SAMPLES


def test_calls_are_timed_warm_by_rounds_that_are_not(monkeypatch: pytest.MonkeyPatch):
    waits = iter(range(1, 10_000))
    monkeypatch.setattr(timer, "call_ns", lambda fn, pair, flush: float(next(waits)))
    calls = run().query("timer == 'call'")
    fast = len(ESTIMATE_NS)  # the slow one is left out, the repetition comes on top
    assert calls["time_ns"].min() == block.WARM_CALLS * fast + 1
    assert calls["sample"].min() == 0


def test_a_call_beyond_the_limit_is_skipped_as_too_slow(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(ESTIMATE_NS, "torch_naive", 1.01e8)
    monkeypatch.setitem(ESTIMATE_NS, "copy_torch", 1e8)
    table = run()
    slow = table[table["variant"] == "torch_naive"]
    assert slow["status"].tolist() == ["skipped"]
    assert slow["reason"].tolist() == ["too slow: 0.1 s a call, the limit of a sweep is 0.1 s"]
    assert (slow["max_rel_err"] == 1e-7).all()
    assert set(table.loc[table["variant"] == "copy_torch", "status"]) == {"ok"}


def test_a_call_is_timed_from_an_empty_l2_to_its_end(monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []
    clock = iter([100, 350])
    monkeypatch.undo()
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: seen.append("synchronize"))
    monkeypatch.setattr(timer.time, "perf_counter_ns", lambda: seen.append("clock") or next(clock))
    pair = torch.zeros(1, 1), torch.zeros(1, 1)
    call: Any = lambda x, out: seen.append("call")  # noqa: E731
    flush: Any = lambda: seen.append("flush")  # noqa: E731
    assert timer.call_ns(call, pair, flush) == 250
    assert seen == ["flush", "synchronize", "clock", "call", "synchronize", "clock"]


def test_a_sample_of_calls_is_the_median_of_those_after_the_warm_ones(
    monkeypatch: pytest.MonkeyPatch,
):
    waits = iter([1e6] * timer.CALLS + [9e9] * (timer.CALLS // 2) + [30.0, 20.0] * timer.CALLS)
    monkeypatch.setattr(timer, "call_ns", lambda fn, pair, flush: next(waits))
    x = torch.zeros(1, 1)
    calls = timer.CallTimer(lambda x, out: out, (x, x), lambda: None)  # pyright: ignore[reportArgumentType]
    # Of an odd number of calls the slow ones are just not the half.
    assert calls.sample() == 30.0
    assert calls.sample() in (20.0, 30.0)


def test_out_of_memory_before_the_first_sample_skips_the_point(monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> Sequence[timer.Pair]:
        raise torch.OutOfMemoryError("tried to allocate")

    monkeypatch.setattr(timer, "buffers", full)
    table = run()
    assert set(table["variant"]) == {*ESTIMATE_NS, "torch_eager" + AGAIN}
    assert set(table["status"]) == {"skipped"}
    assert table["reason"].str.startswith("out of device memory").all()
    assert table["time_ns"].isna().all()


def test_out_of_memory_at_a_sample_keeps_the_block():
    FakeTimer.fail = {3: torch.OutOfMemoryError("tried to allocate")}
    table = run()
    assert (table["status"] == "ok").sum() == 2
    stopped = table[table["status"] == "skipped"]
    assert set(stopped["variant"]) == {*ESTIMATE_NS, "torch_eager" + AGAIN}
    assert stopped["reason"].str.startswith("out of device memory").all()


def lost(error: Exception, device: str) -> None:
    raise GpuLost(str(error)) from error


def measured(tmp_path: Path) -> None:
    hardware = tmp_path / "hardware.json"
    hardware.write_text('{"source": "local-test-gpu"}')
    out, log = tmp_path / "block-0.csv.gz", tmp_path / "log"
    block.measure_block("small_batch", "full", 0, 1, "cuda", hardware, out, log)


def test_a_lost_gpu_is_recorded_for_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(block, "raise_if_lost", lost)
    FakeTimer.fail = {5: RuntimeError("an illegal memory access")}
    with pytest.raises(SystemExit):
        measured(tmp_path)
    (crash,) = read_crashes(tmp_path / CRASHES)
    assert (crash.point, crash.reason) == (POINT, "an illegal memory access")
    assert crash.variant in ESTIMATE_NS
    assert not (tmp_path / "block-0.csv.gz").exists()
    shown = capsys.readouterr().err
    assert "the GPU stopped answering in small_batch, block 0" in shown
    assert crash.variant in shown


def test_a_gpu_lost_with_the_baselines_repetition_is_recorded_as_the_baselines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(block, "raise_if_lost", lost)
    monkeypatch.setattr(Block, "_shuffled", lambda self, entries: sorted(entries, reverse=True))
    FakeTimer.fail = {2: RuntimeError("gone")}  # torch_naive is first, the repetition second
    with pytest.raises(SystemExit):
        measured(tmp_path)
    assert [c.variant for c in read_crashes(tmp_path / CRASHES)] == ["torch_eager"]


def test_nothing_else_is_taken_for_a_lost_gpu(monkeypatch: pytest.MonkeyPatch):
    FakeTimer.fail = {5: RuntimeError("a mistake of ours")}
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        run()
