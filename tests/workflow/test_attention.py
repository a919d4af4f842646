"""The tables of docs/attention.md: ranges, speeds by length, what is counted."""

from pathlib import Path

import pytest

from experiments.family.archived import samples
from experiments.family.counts import FILE
from experiments.tables import write_raw
from tests.experiments.family.made import counts_of, raw_of
from workflow.attention import counted, lengths, slowed, speeds

# Of ours: microseconds without keys, and for 512 of them; of others how many times as long.
ONCE, MORE = 100.0, 200.0
TIMES = {"ours": 1.0, "torch": 0.5, "torch_efficient": 2.0, "unfused": 4.0}


@pytest.fixture
def archives(tmp_path: Path) -> dict[str, Path]:
    """Two of them: FlashAttention takes half as long without keys, and a fourth more for them."""
    raw = raw_of("attention")
    raw = raw[raw["implementation"].isin([*TIMES, "torch_flash"])].copy()
    steps = raw["cols"] / 512
    raw["time_ns"] = raw["implementation"].map(TIMES).fillna(1) * (ONCE + MORE * steps) * 1e3
    flash = raw["implementation"] == "torch_flash"
    raw.loc[flash, "time_ns"] = (0.5 * ONCE + 1.25 * MORE * steps[flash]) * 1e3
    raw.loc[flash & (raw["cols"] == 512), "throttle_mask"] = 4.0
    for gpu, sha256 in (("new", raw["kernel_sha256"]), ("old", "a" * 64)):
        (folder := tmp_path / gpu / "family" / "raw").mkdir(parents=True)
        write_raw(raw.assign(kernel_sha256=sha256), folder.parents[1] / samples("attention"))
        counts = counts_of()
        mine = counts["operator"] == "attention"
        counts.loc[mine, "kernel_sha256"] = sha256 if gpu == "old" else counts["kernel_sha256"]
        counts.to_csv(tmp_path / gpu / FILE, index=False)
    return {gpu: tmp_path / gpu for gpu in ("new", "old")}


def cells(table: str) -> list[list[str]]:
    return [row.strip("| ").split(" | ") for row in table.splitlines()[2:]]


def test_speeds_are_ranges_and_a_dagger_marks_earlier_code(archives: dict[str, Path]):
    rows = cells(speeds(archives))
    assert [row[0] for row in rows] == ["new"] * 4 + ["old†"] * 4
    assert [row[1] for row in rows[:4]] == [
        "full, D=64", "full, D=128", "causal, D=64", "causal, D=128"
    ]  # fmt: skip
    # Of 300 to 6,500 microseconds and 300 to 8,050.
    assert rows[0][3:] == ["0.5 to 0.5", "1 to 1.24", "2 to 2", "4 to 4"]


def test_a_gpu_without_samples_is_left_out(archives: dict[str, Path], tmp_path: Path):
    more = {**archives, "none": tmp_path / "none"}
    assert speeds(more) == speeds(archives)


def test_lengths_are_told_each_by_itself(archives: dict[str, Path]):
    rows = cells(lengths(archives))
    assert [row[:2] for row in rows] == [row[:2] for row in cells(speeds(archives))]
    # 4 * 64 operations of 16,384 x 32 queries and 512 keys in 300 microseconds.
    assert rows[0][2] == "0.50 (229)"
    # Of 16,384 keys in 6,500; of which a causal mask shows half.
    assert [row[-1] for row in rows[:4]] == [
        "0.50 (338)", "0.50 (338)", "0.50 (169)", "0.50 (169)"
    ]  # fmt: skip


def test_throttled_points_are_counted(archives: dict[str, Path]):
    points = 5 * 32
    assert slowed(archives) == f"4 of {points} on the new, 4 of {points} on the old"


def test_counts_are_of_what_is_ideal(archives: dict[str, Path]):
    rows = cells(counted(archives))
    assert [row[:4] for row in rows[:2]] == [
        ["new", "full, D=128, 16,384", "ours", "1.00"],
        ["new", "full, D=128, 16,384", "torch", "2.00"],
    ]
    assert {row[0] for row in rows} == {"new", "old†"}
