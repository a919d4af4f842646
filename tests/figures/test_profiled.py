"""Figures of a profile: every variant on its line, bars as long as what was counted."""

import json
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import matplotlib.style
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from experiments.counts import FRONTIER_POINTS, POINTS, whole
from figures import frontier_bytes, occupancy, page, profiled
from figures.look import look
from kernels.registry import FRAMEWORKS
from tests.experiments.counted import PROFILER, counted
from tests.figures.test_draw import xs, ys
from tests.figures.test_page import SUFFIXES, refused, run

FIGURES = ("dram_bytes", "occupancy")


@pytest.fixture(scope="module")
def made() -> pd.DataFrame:
    return whole(counted())


def figure_of(name: str, table: pd.DataFrame) -> tuple[Figure, page.Grid]:
    grid = profiled.panels(table, import_module(f"figures.{name}").draw)
    with matplotlib.style.context(page.HERE / "paper.mplstyle"):
        return page.compose(grid, "a note", page.MEDIA[1], "all", profiled.TALL), grid


def ticks(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.parametrize("name", FIGURES)
def test_labels_are_apart_and_inside_with_forty_variants(name: str, made: pd.DataFrame):
    one = made[made["variant"] == "quack"]
    more = [one.assign(variant=f"quack_a_new_one_{i}") for i in range(6)]
    table = pd.concat([made, *more]).assign(stale=False)
    figure, _ = figure_of(name, table)
    labels = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert len(labels) == table["variant"].nunique() > 40
    for above, below in pairwise(labels):
        assert above.y0 >= below.y1
    assert min(label.x0 for label in labels) >= 0
    titles = [ax.title.get_window_extent() for ax in figure.axes]
    names = [ax.xaxis.label.get_window_extent() for ax in figure.axes]
    for boxes in (titles, names):
        for left, right in pairwise(boxes):
            assert left.x1 < right.x0


def test_a_bar_is_what_was_read_and_then_what_was_written(made: pd.DataFrame):
    figure, (panels,) = figure_of("dram_bytes", made.assign(stale=False))
    names = profiled.lines(made)
    assert [panel.title for panel in panels] == [
        f"{p.rows:,} x {p.cols:,}\n{p.dtype}" for p in POINTS
    ]
    for panel, ax in zip(panels, figure.axes, strict=True):
        done = panel.table[panel.table["status"] == "ok"].set_index("variant")
        reads, writes = (c for c in ax.containers if isinstance(c, BarContainer))
        assert len(reads.patches) == len(writes.patches) == len(done)
        for read, write in zip(reads.patches, writes.patches, strict=True):
            row = done.loc[names[round(read.get_y() + read.get_height() / 2)]]
            ideal = row["ideal_bytes"]
            assert (read.get_x(), read.get_width()) == (0, row["dram_read_bytes"] / ideal)
            assert write.get_x() == read.get_width()
            assert write.get_width() == row["dram_write_bytes"] / ideal
            assert write.get_y() == read.get_y()
            assert read.get_x() + read.get_width() + write.get_width() <= ax.get_xlim()[1]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["skipped / wrong", "2MN: read once, written once", "read", "written"]


def test_the_frontier_has_a_row_of_points_a_dtype(made: pd.DataFrame):
    grid = profiled.panels(made.assign(stale=False), frontier_bytes.draw, frontier_bytes.ROWS)
    assert [{panel.title.split("\n")[1] for panel in row} for row in grid] == [
        {"float32"}, {"bfloat16"}
    ]  # fmt: skip
    assert sum(len(row) for row in grid) == len(FRONTIER_POINTS)
    assert all("frontier" in set(panel.table["variant"]) for row in grid for panel in row)
    # An archive may be older than these points.
    older = made[made["dtype"] != "bfloat16"].assign(stale=False)
    assert len(profiled.panels(older, frontier_bytes.draw, frontier_bytes.ROWS)) == 1


def test_the_ideal_is_a_line_at_one(made: pd.DataFrame):
    figure, _ = figure_of("dram_bytes", made.assign(stale=False))
    for ax in figure.axes:
        (line,) = (v for v in ax.lines if str(v.get_label()).startswith("2MN"))
        assert xs(line) == [1.0, 1.0]


def test_occupancy_and_throughput_have_a_mark_each(made: pd.DataFrame):
    figure, (panels,) = figure_of("occupancy", made.assign(stale=False))
    names = profiled.lines(made)
    for panel, ax in zip(panels, figure.axes, strict=True):
        done = panel.table[panel.table["status"] == "ok"]
        for column, (label, *_) in occupancy.MARKS.items():
            marks = [v for v in ax.lines if v.get_label() == label]
            found = {
                (names[int(y)], x)
                for mark in marks
                for x, y in zip(xs(mark), ys(mark), strict=True)
            }
            assert found == set(zip(done["variant"], done[column], strict=True))


@pytest.mark.parametrize("name", FIGURES)
def test_what_was_not_counted_is_marked_on_its_line(name: str, made: pd.DataFrame):
    figure, (panels,) = figure_of(name, made.assign(stale=False))
    names = profiled.lines(made)
    for panel, ax in zip(panels, figure.axes, strict=True):
        for status in ("skipped", "wrong"):
            wanted = panel.table.loc[panel.table["status"] == status, "variant"]
            marks = [v for v in ax.lines if v.get_label() == f"_lines {status}"]
            found = [names[int(y)] for mark in marks for y in ys(mark)]
            assert sorted(found) == sorted(wanted)


def test_frameworks_stay_together_without_the_copies(
    made: pd.DataFrame, hardware: Path, tmp_path: Path
):
    made.to_csv(path := tmp_path / "profile.csv", index=False)
    made = profiled.read(path)
    names = profiled.lines(made)
    assert not {"copy_torch", "copy_memcpy"} & set(names)
    facts = page.read_hardware(hardware)
    assert "copy" not in profiled.note(made, facts, "words", ["copy_torch", "frontier"])
    framework = made.drop_duplicates("variant").set_index("variant")["framework"]
    groups = [framework[name] for name in names]
    assert list(dict.fromkeys(groups)) == list(FRAMEWORKS)
    assert (
        len([i for i in range(1, len(groups)) if groups[i] != groups[i - 1]]) == len(FRAMEWORKS) - 1
    )
    figure, _ = figure_of("dram_bytes", made.assign(stale=False))
    assert ticks(figure.axes[0]) == [look(name).label for name in names]


def test_stale_counts_are_hollow_and_told(made: pd.DataFrame, hardware: Path, tmp_path: Path):
    path = tmp_path / "profile.csv"
    old = made["variant"] == "liger"
    made.assign(kernel_sha256=made["kernel_sha256"].mask(old, "f" * 64)).to_csv(path, index=False)
    table = profiled.read(path)
    assert set(table.loc[table["stale"], "variant"]) == {"liger"}
    figure, _ = figure_of("dram_bytes", table)
    hollow = profiled.lines(table).index("liger")
    for bar in figure.axes[0].patches:
        assert isinstance(bar, Rectangle)
        white = bar.get_facecolor() == (1.0, 1.0, 1.0, 1.0)
        assert white == (round(bar.get_y() + bar.get_height() / 2) == hollow)
    facts = page.read_hardware(hardware)
    assert "hollow bars and marks are stale" in profiled.note(table, facts, "words")
    fresh = profiled.note(table.assign(stale=False), facts, "words")
    assert "stale" not in fresh
    assert fresh.startswith(f"words · counted by {PROFILER} · NVIDIA H200 · archive · ")
    assert "not counted" not in fresh
    known = table["variant"].iloc[0]
    lacking = profiled.note(table, facts, "words", [known, "a_new_one"])
    assert lacking.endswith("not counted: a_new_one")


@pytest.mark.parametrize("name", FIGURES)
def test_the_same_table_gives_the_same_bytes(name: str, made, hardware: Path, tmp_path: Path):
    path = tmp_path / "profile.csv"
    made.to_csv(path, index=False)
    stems = [tmp_path / folder / name for folder in ("one", "two")]
    for stem, seed in zip(stems, "12", strict=True):
        done = run(name, path, "--hardware", hardware, "--stem", stem, PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
        assert "Warning" not in done.stderr
    for suffix in SUFFIXES:
        first, second = (stem.with_name(f"{name}.{suffix}").read_bytes() for stem in stems)
        assert len(first) > 1000
        assert first == second, suffix


def uncounted(made: pd.DataFrame, path: Path) -> Path:
    """A profile in which ncu was refused the counters."""
    numbers = ["dram_read_bytes", "dram_write_bytes", "duration_us"]
    table = made.assign(status="skipped", reason="the driver keeps them", launches=0)
    table.assign(**dict.fromkeys(numbers)).to_csv(path, index=False)
    return path


def test_the_archive_is_drawn_where_nothing_was_counted(made, hardware: Path, tmp_path: Path):
    path = uncounted(made, tmp_path / "profile.csv")
    archive = tmp_path / "archive-other"
    archive.mkdir()
    made.to_csv(archive / "profile.csv", index=False)
    facts = json.loads(hardware.read_text()) | {"gpu": "Other GPU"}
    (archive / "hardware.json").write_text(json.dumps(facts))
    table, told = profiled.chosen(path, hardware, archive)
    assert (table["status"] == "ok").any()
    assert told["gpu"] == "Other GPU"
    made.to_csv(path, index=False)
    assert profiled.chosen(path, hardware, archive)[1]["gpu"] == "NVIDIA H200"


def test_nothing_to_draw_is_one_sentence(made, hardware: Path, tmp_path: Path):
    path = uncounted(made, tmp_path / "profile.csv")
    done = run("dram_bytes", path, "--hardware", hardware, "--stem", tmp_path / "x")
    refused(done, "counts nothing: the driver keeps them; and no archive holds a profile yet")


@pytest.mark.parametrize("text", [None, "", "a,b\n1,2\n"])
def test_a_table_that_is_no_profile_is_one_sentence(text: str | None, hardware: Path, tmp_path):
    path = tmp_path / "profile.csv"
    if text is not None:
        path.write_text(text)
    done = run("occupancy", path, "--hardware", hardware, "--stem", tmp_path / "x")
    refused(done, str(path), "python -m experiments.profiler")


def test_a_panel_without_counts_is_drawn(made: pd.DataFrame):
    nothing = made["cols"] == 1024
    table = made.assign(
        stale=False, status=made["status"].mask(nothing & (made["status"] == "ok"), "skipped")
    )
    figure, _ = figure_of("dram_bytes", table)
    assert not figure.axes[0].containers
