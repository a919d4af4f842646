"""What limits a kernel: a line a place and variant, in order, and what was not counted below."""

from pathlib import Path

import pytest

from experiments.counts import NEAR_LIMITS_NAMES, PLACED, read_counts, watched
from experiments.layout import Place
from experiments.limits import HEADS, told
from experiments.profiler import refused, table
from kernels.registry import ROOT
from tests.commands import module
from tests.experiments.counted import COMMIT, PROFILER, counted, launch
from tests.experiments.test_profiler import told as outcome

LAYOUT_NAMES = tuple(place.layout for place in PLACED)
PLACE = Place("float32", 2048, 8192)


def cells(text: str) -> list[list[str]]:
    """The rows of the first table."""
    rows = text[text.index("| --- |") :].split("\n\n")[0].splitlines()[1:]
    return [row.strip("| ").split(" | ") for row in rows]


def test_a_line_has_what_was_counted():
    once = 2048 * 8192 * 4
    kernel = launch(
        dram_read_bytes=1.02 * once, dram_write_bytes=0.5 * once, duration_us=36.78, waves=0.48,
        dram_throughput_pct=67.8, occupancy_pct=50.2, issue_pct=12.3, long_scoreboard=3.0, wait=1.0,
    )  # fmt: skip
    made = table(outcome("frontier"), {("frontier", PLACE): [kernel]}, PROFILER, COMMIT)
    text = told(made.assign(stale=False))
    assert cells(text) == [
        ["float32 2,048 x 8,192", "frontier", "36.78", "1.020", "0.500", "68", "50",
         "0.48", "12", "long scoreboard", "75"]
    ]  # fmt: skip
    assert len(cells(text)[0]) == len(HEADS)
    assert PROFILER in text
    assert "earlier code" not in text
    assert "Not counted" not in text
    old = told(made.assign(stale=True))
    assert cells(old)[0][1] == "frontier†"
    assert "† counted with earlier code" in old


def test_where_no_stall_was_told_there_is_a_dash():
    made = table(outcome("frontier"), {("frontier", PLACE): [launch()]}, PROFILER, COMMIT)
    assert cells(told(made.assign(stale=False)))[0][-2:] == ["–", "–"]


@pytest.mark.parametrize("waves", [float("inf"), float("nan")])
def test_waves_that_are_no_number_are_a_dash(waves: float):
    kernels = {("frontier", PLACE): [launch(waves=waves)]}
    made = table(outcome("frontier"), kernels, PROFILER, COMMIT)
    assert cells(told(made.assign(stale=False)))[0][HEADS.index("waves")] == "–"


def test_places_and_variants_are_in_order_and_few():
    text = told(counted().assign(stale=False).sample(frac=1.0, random_state=1))
    lines = cells(text)
    ours = {(place, name) for place, names in watched().items() for name in names}
    ours = {(place, name) for place, name in ours if name in NEAR_LIMITS_NAMES}
    skipped = text.partition("Not counted:")[2].count("| skipped |")
    assert len(lines) + skipped == len(ours)
    places = [line[0] for line in lines]
    assert places[0].startswith("float32 4,194,304 x 32")
    assert [p.split()[0] for p in places] == sorted(
        (p.split()[0] for p in places), key=["float32", "float16", "bfloat16"].index
    )
    here = [line[1] for line in lines if line[0] == "bfloat16 2,048 x 131,072"]
    assert here == [name for name in NEAR_LIMITS_NAMES if name in here]
    # Beside the contiguous rows of the same shape.
    beside = places.index("bfloat16 2,048 x 131,072, sliced input")
    assert places[beside - 1] == "bfloat16 2,048 x 131,072"
    assert sum(place.endswith(LAYOUT_NAMES) for place in places) == len(PLACED)


def test_what_was_counted_before_a_variant_was_asked_for_is_told_without_it():
    counts = counted().assign(stale=False)
    text = told(counts[counts["variant"] != "torch_compile"])
    assert {line[1] for line in cells(text)} == set(NEAR_LIMITS_NAMES) - {"torch_compile"}
    kept = read_counts(ROOT.parent / "experiments" / "archive" / "nvidia-h200" / "profile.csv")
    assert {line[1] for line in cells(told(kept.assign(stale=False)))} >= {"frontier", "quack"}


def test_where_ncu_may_not_count_the_page_says_why(tmp_path: Path):
    made = table(refused("no leave"), {}, PROFILER, COMMIT)
    made.to_csv(path := tmp_path / "profile.csv", index=False)
    done = module("experiments.limits", path, "--out", tmp_path / "limits.md")
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "limits.md").read_text().endswith("Nothing was counted: no leave.\n")


@pytest.mark.parametrize("text", [None, "", "a,b\n1,2\n"])
def test_what_is_no_profile_is_one_sentence(text: str | None, tmp_path: Path):
    path = tmp_path / "profile.csv"
    if text is not None:
        path.write_text(text)
    done = module("experiments.limits", path, "--out", tmp_path / "limits.md")
    assert done.returncode == 2
    assert done.stdout.startswith(f"{path} is not a profile: ")
    assert "Traceback" not in done.stdout
    assert not (tmp_path / "limits.md").exists()
