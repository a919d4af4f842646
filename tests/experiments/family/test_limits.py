"""What operators move: a line a call, bytes over the ideal ones, and what was not counted below."""

from pathlib import Path

import pandas as pd
import pytest

from experiments.family.counts import Watched, watched
from experiments.family.limits import HEADS, read_counts, told
from experiments.family.operator import OURS, TORCH
from experiments.family.profiler import refused, table
from tests.commands import module
from tests.experiments.counted import COMMIT, PROFILER, launch
from tests.experiments.family.made import counts_of
from tests.experiments.family.test_profiler import told as outcome
from tests.experiments.test_limits import cells

SQUARE = Watched("columns", OURS, 1)
IDEAL = 2 * 8192 * 8192 * 2


def test_a_line_has_what_was_counted():
    kernels = [
        launch(
            dram_read_bytes=0.52 * IDEAL, dram_write_bytes=0.25 * IDEAL, duration_us=30.0,
            dram_throughput_pct=60.0, occupancy_pct=50.2, issue_pct=10.0, waves=0.5,
            barrier=3.0, wait=1.0,
        ),
        launch(
            dram_read_bytes=0.1 * IDEAL, dram_write_bytes=0.125 * IDEAL, duration_us=10.0,
            dram_throughput_pct=80.0, occupancy_pct=50.2, issue_pct=30.0,
        ),
    ]  # fmt: skip
    made = table(outcome(SQUARE), {SQUARE: kernels}, PROFILER, COMMIT)
    text = told(made.assign(stale=False))
    assert cells(text) == [
        ["columns", "square", "bfloat16 1 x 8,192 x 8,192", "ours", "2", "40", "0.620", "0.375",
         "65", "50", "0.50", "15", "barrier", "75"]
    ]  # fmt: skip
    assert len(cells(text)[0]) == len(HEADS)
    assert f"Counted by {PROFILER}." in text
    assert "earlier code" not in text
    assert "Not counted" not in text


def test_waves_of_a_cluster_that_are_infinite_are_a_dash():
    made = table(outcome(SQUARE), {SQUARE: [launch(waves=float("inf"))]}, PROFILER, COMMIT)
    (line,) = cells(told(made.assign(stale=False)))
    assert line[HEADS.index("waves")] == "–"


def test_ours_of_earlier_code_is_marked_and_torchs_stays(tmp_path: Path):
    made = counts_of()
    old = made["operator"] == "masks"
    made.assign(kernel_sha256=made["kernel_sha256"].mask(old, "f" * 64)).to_csv(
        path := tmp_path / "counts.csv", index=False
    )
    table = read_counts(path)
    assert set(table.loc[table["stale"], "operator"]) == {"masks"}
    assert set(table.loc[table["stale"], "implementation"]) == {OURS}
    text = told(table)
    marked = [line for line in cells(text) if line[3] == "ours†"]
    assert [line[0] for line in marked] == ["masks"] * 2
    assert "† counted with earlier code" in text
    counted = [line[3].removesuffix("†") for line in cells(text)]
    assert counted == [call.implementation for call in watched()]
    assert {line[6] for line in cells(text) if line[3] == TORCH} == {"1.000"}
    assert {line[6] for line in cells(text) if line[3] != TORCH} == {"0.500"}


def test_what_was_not_counted_stands_below_with_its_reason():
    some = pd.concat([outcome(SQUARE), outcome(watched()[0], status="wrong", reason="off by 1")])
    made = table(some, {SQUARE: [launch()]}, PROFILER, COMMIT)
    _, _, below = told(made.assign(stale=False)).partition("Not counted:")
    assert "| operator | asked | where | implementation |  | why |" in below
    assert "| factors | log | bfloat16 2,048 x 131,072 | ours | wrong | off by 1 |" in below


def test_where_ncu_may_not_count_the_page_says_why(tmp_path: Path):
    table(refused("no leave"), {}, PROFILER, COMMIT).to_csv(
        path := tmp_path / "counts.csv", index=False
    )
    done = module("experiments.family.limits", path, "--out", tmp_path / "new" / "counts.md")
    assert done.returncode == 0, done.stdout
    text = (tmp_path / "new" / "counts.md").read_text()
    assert text.endswith("Nothing was counted: no leave.\n")


@pytest.mark.parametrize("text", [None, "", "a,b\n1,2\n"])
def test_another_file_is_one_sentence(text: str | None, tmp_path: Path):
    path = tmp_path / "counts.csv"
    if text is not None:
        path.write_text(text)
    done = module("experiments.family.limits", path, "--out", tmp_path / "counts.md")
    assert done.returncode == 2
    assert done.stdout.startswith(f"{path} is not a table of operators' counts: ")
    assert "Traceback" not in done.stdout
    assert not (tmp_path / "counts.md").exists()
