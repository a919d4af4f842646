"""The tables of docs/attention.md: ranges, what is behind, what a key takes, what is counted."""

from pathlib import Path

import pandas as pd
import pytest

from experiments.family.archived import samples
from experiments.family.counts import FILE
from experiments.tables import write_raw
from tests.experiments.family.made import counts_of, raw_of
from workflow.attention import behind, counted, parts, slowed, speeds

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


def test_a_time_is_split_by_the_line_through_the_shortest_lengths(archives: dict[str, Path]):
    for row in cells(parts(archives)):
        assert row[2:] == ["100 µs", "50 µs", "200 µs", "250 µs"]


def test_what_is_behind_is_told_also_of_earlier_code(archives: dict[str, Path]):
    assert cells(behind(archives)) == []
    for folder in archives.values():
        path = folder / samples("attention")
        raw = pd.read_csv(path, keep_default_na=False, na_values={"time_ns": [""]})
        at = (raw["implementation"] == "torch_flash") & (raw["cols"] == 512)
        at &= raw["asked"] == "full, D=128"
        raw.loc[at, "time_ns"] *= 0.9
        write_raw(raw, path)
    from workflow import attention

    attention._tidy.cache_clear()
    (first, second) = cells(behind(archives))
    assert first == [
        "new", "full, D=128, bfloat16", "512", "0.900", "0.900 to 0.900", "missed"
    ]  # fmt: skip
    assert second == ["old†", *first[1:]]


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
