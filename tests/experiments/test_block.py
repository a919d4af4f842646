"""A block: seeded order, checks before times, and a row for everything that could not be timed."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor

from experiments import block, check, examine, timer
from experiments.block import CRASHES, Block, Crash, read_crashes, record_crash
from experiments.sweeps import Point
from experiments.sweeps.sweep import AGAIN, Sweep
from kernels.launch import Unavailable
from kernels.outputs import TopK

VARIANTS = ("copy_torch", "torch_eager", "torch_naive", "cuda_block_tree")
POINTS = [Point("float32", rows, cols) for cols in (4, 33) for rows in (1, 2, 5)]
FACTS = {"gpu": None, "code_commit": "a" * 40}
Softmax = Callable[[Tensor, Tensor], Tensor]
TIMED = ["copy_torch", "torch_eager", "torch_eager" + AGAIN, "torch_naive"]


@pytest.fixture(autouse=True)
def small_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Sweep(
        rows=(1, 2, 5), cols=(4, 33), dtypes=("float32",), variants=VARIANTS, timers=("host",)
    )
    monkeypatch.setattr(block, "sweep", lambda name: small)


def new_block(number: int = 0, seed: int = 1) -> Block:
    return Block("smoke", "smoke", number, seed, "cpu")


def run(number: int = 0, seed: int = 1, crashes: tuple[Crash, ...] = ()) -> pd.DataFrame:
    return new_block(number, seed).run(crashes, FACTS)


def sequence(table: pd.DataFrame) -> list[tuple[object, ...]]:
    """What was timed, in the order of timing."""
    timed = table[table["status"] == "ok"]
    columns = [timed[c].tolist() for c in ("rows", "cols", "sample", "order", "variant")]
    return list(zip(*columns, strict=True))


def break_variant(monkeypatch: pytest.MonkeyPatch, name: str, instead: Softmax) -> None:
    real = examine.load
    broken = lambda wanted: instead if wanted == name else real(wanted)  # noqa: E731
    monkeypatch.setattr(examine, "load", broken)
    monkeypatch.setattr(block, "load", broken)


def only_reason(table: pd.DataFrame, variant: str, status: str) -> str:
    """The one reason that all rows of ``variant`` give, none of them with a time."""
    rows = table[table["variant"] == variant]
    assert len(rows) == len(POINTS)
    assert set(rows["status"]) == {status}
    assert rows["time_ns"].isna().all()
    (reason,) = set(rows["reason"])
    return reason


def test_the_same_seed_and_block_give_the_same_order():
    assert sequence(run()) == sequence(run())


@pytest.mark.parametrize("other", [(1, 1), (0, 2)], ids=["block", "seed"])
def test_another_block_or_seed_gives_another_order(other: tuple[int, int]):
    here, there = sequence(run()), sequence(run(*other))
    assert here != there
    assert sorted(here, key=str) != here
    assert new_block().points != new_block(*other).points
    assert sorted(new_block().points) == sorted(new_block(*other).points) == sorted(POINTS)


def test_variants_are_interleaved_within_a_point():
    timed = sequence(run())
    rounds = [timed[i : i + len(TIMED)] for i in range(0, len(timed), len(TIMED))]
    assert len(rounds) == len(POINTS) * block.SAMPLES["smoke"]
    for one in rounds:
        *places, orders, variants = zip(*one, strict=True)
        assert len(set(zip(*places, strict=True))) == 1  # one (rows, cols, sample)
        assert orders == tuple(range(len(TIMED)))
        assert sorted(variants) == TIMED
    assert len({tuple(v for *_, v in one) for one in rounds}) > 1


def test_everything_is_checked_before_anything_is_timed(monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []

    def checking(name: str, problem: examine.Problem) -> examine.Outcome:
        seen.append("check")
        return examine.examine(name, problem)

    def timing(fn: Softmax, pair: timer.Pair) -> float:
        seen.append("time")
        return 1.0

    monkeypatch.setattr(block, "examine", checking)
    monkeypatch.setattr(timer, "host_ns", timing)
    run()
    checks = len(VARIANTS) * len(POINTS)
    times = len(TIMED) * len(POINTS) * block.SAMPLES["smoke"]
    assert seen == ["check"] * checks + ["time"] * times


def of_k(pair: timer.Pair) -> int:
    """The k of the output in ``pair``, 0 for whole rows."""
    return pair[1][0].shape[1] if isinstance(pair[1], TopK) else 0


def test_a_top_k_is_timed_into_outputs_of_its_own(monkeypatch: pytest.MonkeyPatch):
    seen: list[timer.Pair] = []
    monkeypatch.setattr(timer, "host_ns", lambda fn, pair: float(len(seen.append(pair) or seen)))
    names = ("copy_torch", "torch_eager", "torch_topk_4", "torch_topk_8")
    tops = Sweep(
        rows=(3,), cols=(4, 33), dtypes=("float32",), variants=names, timers=("host",),
        again="torch_topk_4",
    )  # fmt: skip
    monkeypatch.setattr(block, "sweep", lambda name: tops)
    table = run()
    stopped = table[table["status"] != "ok"]
    assert stopped[["variant", "cols"]].to_numpy().tolist() == [["torch_topk_8", 4]]
    assert set(stopped["reason"]) == {"takes at least 8 columns: it gives the 8 largest"}
    timed = table[table["status"] == "ok"].sort_values("time_ns")["variant"]
    ks = {"torch_topk_4": 4, "torch_topk_4" + AGAIN: 4, "torch_topk_8": 8}
    assert [of_k(pair) for pair in seen] == [ks.get(name, 0) for name in timed]
    assert len({id(pair[1]) for pair in seen if not of_k(pair)}) == len(tops.cols)


def test_a_wrong_top_k_is_wrong(monkeypatch: pytest.MonkeyPatch):
    problem = examine.Problem(Point("float32", 3, 33), "cpu", 1)
    assert examine.examine("torch_topk_4", problem).status == "ok"
    assert examine.examine("torch_eager", problem).status == "ok"
    break_variant(monkeypatch, "torch_topk_4", lambda x, out: out)
    outcome = examine.examine("torch_topk_4", problem)
    assert (outcome.status, outcome.reason) == ("wrong", "row 0 has an index outside of it")


def test_a_wrong_variant_has_a_reason_and_no_time(monkeypatch: pytest.MonkeyPatch):
    break_variant(monkeypatch, "torch_naive", lambda x, out: out.fill_(1 / x.shape[1]))
    table = run()
    rows = table[table["variant"] == "torch_naive"]
    assert set(rows["status"]) == {"wrong"}
    assert rows["reason"].str.contains("relative error").all()
    assert (rows["max_rel_err"] > 2e-5).all()
    assert rows["time_ns"].isna().all()
    assert set(table.loc[table["status"] == "ok", "variant"]) == {*TIMED} - {"torch_naive"}


def test_a_variant_that_changes_its_input_is_wrong_and_spoils_nothing(
    monkeypatch: pytest.MonkeyPatch,
):
    def in_place(x: Tensor, out: Tensor) -> Tensor:
        out.copy_(torch.softmax(x, dim=1))
        x[-1, -1] += 1
        return out

    monkeypatch.setattr(examine, "planted", planted := CountingPlanted())
    # First of all, so that every other variant comes after it.
    break_variant(monkeypatch, "copy_torch", lambda x, out: in_place(x, out).copy_(x))
    table = run()
    assert only_reason(table, "copy_torch", "wrong") == "it changed its input"
    assert set(table.loc[table["status"] == "ok", "variant"]) == {*TIMED} - {"copy_torch"}
    assert planted.calls == 2 * len(POINTS)


def test_what_autotuning_chose_is_in_each_row_of_its_point(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(examine, "tuned", lambda name: f"{name}(warps=4)" * (name == TIMED[1]))
    table = run()
    chosen = table[table["variant"].str.startswith(TIMED[1])]
    assert set(chosen["tuned"]) == {f"{TIMED[1]}(warps=4)"}
    assert set(table.drop(chosen.index)["tuned"]) == {""}


class CountingPlanted:
    calls = 0

    def __call__(self, *args: object) -> Tensor:
        self.calls += 1
        return check.planted(*args)  # pyright: ignore[reportArgumentType]


def test_all_variants_meet_one_input_a_point(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(examine, "planted", planted := CountingPlanted())
    run()
    assert planted.calls == len(POINTS)


def test_a_wrong_copy_is_wrong(monkeypatch: pytest.MonkeyPatch):
    break_variant(monkeypatch, "copy_torch", lambda x, out: out.copy_(x).add_(1e-6))
    assert only_reason(run(), "copy_torch", "wrong") == "the copy differs"


def test_a_wrong_baseline_is_wrong_both_times(monkeypatch: pytest.MonkeyPatch):
    break_variant(monkeypatch, "torch_eager", lambda x, out: out)
    table = run()
    for entry in ("torch_eager", "torch_eager" + AGAIN):
        reason = only_reason(table, entry, "wrong")
        assert reason == "row 0 is finite or NaN where it should not be"


def test_what_cannot_run_here_is_skipped_with_its_reason():
    assert only_reason(run(), "cuda_block_tree", "skipped") == "needs a CUDA GPU"


def raising(error: Exception) -> Softmax:
    def softmax(x: Tensor, out: Tensor) -> Tensor:
        raise error

    return softmax


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unavailable("needs the package 'triton'"), "needs the package 'triton'"),
        (RuntimeError("no such image\nmore"), "RuntimeError: no such image"),
        (ValueError("expected unit stride"), "ValueError: expected unit stride"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_failing_variant_is_skipped_with_its_error(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
):
    break_variant(monkeypatch, "torch_naive", raising(error))
    table = run()
    assert only_reason(table, "torch_naive", "skipped") == reason
    assert "torch_eager" in set(table.loc[table["status"] == "ok", "variant"])


def other_errors() -> list[Exception]:
    from triton.runtime.errors import OutOfResources

    class CUDAError(Exception):
        """As cuda.core's: neither of the two is a RuntimeError."""

    return [
        CUDAError("CUDA_ERROR_INVALID_VALUE"),
        OutOfResources(300_000, 232_448, "shared memory"),
    ]


@pytest.mark.parametrize("error", other_errors(), ids=lambda e: type(e).__name__)
def test_an_error_of_a_launcher_is_a_skipped_point_too(
    error: Exception, monkeypatch: pytest.MonkeyPatch
):
    break_variant(monkeypatch, "torch_naive", raising(error))
    assert type(error).__name__ in only_reason(run(), "torch_naive", "skipped")


def test_out_of_memory_is_a_skipped_point(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**29, 2**30))
    break_variant(monkeypatch, "torch_naive", raising(torch.OutOfMemoryError("tried to allocate")))
    reasons = set(run().query("variant == 'torch_naive'")["reason"])
    assert reasons == {
        "out of device memory: input and output take 0.00 GiB before any intermediate, "
        "0.50 GiB are free"
    }


def crash_of(name: str, point: Point = POINTS[0]) -> Crash:
    return Crash(name, point, 'gone,\n"for good"')


def test_a_crash_of_an_earlier_run_is_a_skipped_point():
    table = run(crashes=(crash_of("torch_naive"),))
    stopped = table[(table["variant"] == "torch_naive") & (table["status"] != "ok")]
    assert stopped[["rows", "cols"]].to_numpy().tolist() == [[1, 4]]
    assert stopped["status"].tolist() == ["skipped"]
    assert stopped["reason"].tolist() == ['took the GPU away in an earlier run: gone,\n"for good"']
    assert stopped["time_ns"].isna().all()


def test_a_crash_of_the_baseline_skips_its_repetition_too():
    table = run(crashes=(crash_of("torch_eager"),))
    stopped = table[(table["status"] == "skipped") & (table["variant"] != "cuda_block_tree")]
    assert sorted(stopped["variant"]) == ["torch_eager", "torch_eager" + AGAIN]


def test_crashes_are_read_as_they_were_recorded(tmp_path: Path):
    path = tmp_path / CRASHES
    assert read_crashes(path) == []
    crashes = [crash_of("torch_eager", point) for point in POINTS[:2]]
    for crash in crashes:
        record_crash(path, crash)
    assert read_crashes(path) == crashes
