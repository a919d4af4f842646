"""An archive under a rerun: its curves are there, faint and told, and nothing else changes."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.tables import POINT
from figures import FIGURES, overlay, page
from tests.figures.conftest import STALE
from tests.figures.test_draw import figure_of, lines, only, xs, ys
from tests.figures.test_page import refused, run

GPU = "Other GPU"
ENTRY = f"{GPU}, archived"
Tidy = Callable[[str], pd.DataFrame]
# What a smoke run measures is in no archive.
DRAWN = [name for name in FIGURES if name != "smoke"]
TIMES = ["median_us", "ci_low_us", "ci_high_us"]
SPEEDS = ["useful_gbps", "fraction_of_copy", "speedup_vs_torch"]


def slower(table: pd.DataFrame, factor: float = 1.25) -> pd.DataFrame:
    """An archive of a GPU that takes ``factor`` as long."""
    table = table.assign(stale=False)
    table[TIMES] *= factor
    table[SPEEDS] /= factor
    return table


def both(name: str, table: pd.DataFrame, archive: pd.DataFrame) -> tuple[Figure, page.Grid]:
    share_y = "row" if name in ("frontier", "topk") else "all"
    return figure_of(name, overlay.under(table, archive, GPU), share_y)


def entries(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def archived(ax: Axes) -> dict[str, list[tuple[float, float]]]:
    """The points of an archive's lines by what they are labelled with, in ascending order."""
    labels = {str(line.get_label()): line for line in ax.lines}
    found = {text: line for text, line in labels.items() if text.endswith(" archived")}
    assert all(line.get_alpha() == overlay.ALPHA for line in found.values())
    return {
        text.removeprefix("_").removesuffix(" archived"): sorted(
            zip(xs(line), ys(line), strict=True)
        )
        for text, line in found.items()
        if text != ENTRY
    }


def theirs(table: pd.DataFrame, x: str, y: str, timer: str = "device") -> dict[str, list]:
    """What of an archive's rows a panel shall hold."""
    mine = only(table[table["archived"] != ""], timer=timer)
    mine = mine[mine[y].notna()]
    return {
        name: sorted(zip(rows[x], rows[y], strict=True)) for name, rows in mine.groupby("variant")
    }


@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_shows_the_archive_and_the_run_as_it_was(name: str, tidy: Tidy):
    table = tidy(FIGURES[name])
    alone, _ = figure_of(name, table, "row" if name in ("frontier", "topk") else "all")
    figure, _ = both(name, table, slower(table))
    assert entries(alone) == [text for text in entries(figure) if text != ENTRY]
    assert entries(figure).count(ENTRY) == 1
    assert len(alone.axes) == len(figure.axes)
    for before, after in zip(alone.axes, figure.axes, strict=True):
        found = [x for points in archived(after).values() for x, _ in points]
        left, right = after.get_xlim()
        assert found
        assert left <= min(found) <= max(found) <= right
        mine = [line for line in after.lines if line.get_alpha() != overlay.ALPHA]
        for one, other in zip(before.lines, mine, strict=True):
            assert (xs(one), ys(one)) == (xs(other), ys(other))
            assert one.get_markerfacecolor() == other.get_markerfacecolor()
        assert len(before.collections) == len(after.collections)


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("vocab_scaling", "cols", "useful_gbps"),
        ("batch_scaling", "rows", "useful_gbps"),
        ("batch_latency", "rows", "median_us"),
        ("few_rows", "rows", "median_us"),
        ("tutorial_cols", "cols", "useful_gbps"),
        ("numerics", "fraction_of_copy", "max_rel_err"),
    ],
)
def test_its_points_are_those_of_the_archive(name: str, x: str, y: str, tidy: Tidy):
    table = tidy(FIGURES[name])
    figure, grid = both(name, table, slower(table))
    for panel, ax in zip((p for row in grid for p in row), figure.axes, strict=True):
        wanted = theirs(panel.table, x, y)
        wanted.pop("copy", None) if name == "numerics" else None
        assert archived(ax) == wanted


def test_it_has_the_variants_and_points_of_the_run_alone(tidy: Tidy):
    table = tidy("vocab_scaling")
    rerun = table[(table["variant"] != "triton_row") & (table["cols"] != 1024)]
    laid = overlay.under(rerun, slower(table), GPU)
    mine, other = overlay.apart(laid)
    assert len(mine) == len(rerun)
    places = ["variant", *POINT]
    known = set(rerun[places].itertuples(index=False, name=None))
    assert set(other[places].itertuples(index=False, name=None)) <= known
    assert set(other["status"]) == {"ok"}
    assert len(other) == (rerun["status"] == "ok").sum()


def test_without_anything_in_common_nothing_is_said(tidy: Tidy):
    table = tidy("vocab_scaling")
    some, others = table["variant"] == "triton_row", table["variant"] == "torch_eager"
    laid = overlay.under(table[some], table[others], GPU)
    assert overlay.words(laid, [GPU]) == []
    assert ENTRY not in entries(figure_of("vocab_scaling", laid)[0])


@pytest.mark.parametrize("name", ["course_shapes", "launch"])
def test_a_variant_that_the_archive_lacks_moves_no_other(name: str, tidy: Tidy):
    table = tidy(name)
    lacking = table[table["variant"] != "torch_eager"]
    figure, _ = both(name, table, slower(lacking))
    off = 0.0 if name == "course_shapes" else 0.3
    for ax in figure.axes:
        found = archived(ax)
        assert "torch_eager" not in found
        for variant, points in found.items():
            (here,) = lines(ax, f"_{variant}")
            heights = {round(y + off, 6) for y in ys(here)}
            assert {round(y, 6) for _, y in points} == heights


def test_a_line_from_device_to_caller_has_the_archives_times(tidy: Tidy):
    table = tidy("launch")
    figure, (panels,) = both("launch", table, slower(table))
    for panel, ax in zip(panels, figure.axes, strict=True):
        rows = panel.table[panel.table["archived"] != ""]
        wanted = rows.groupby("variant")["median_us"].agg(lambda times: sorted(times)).to_dict()
        assert {name: [x for x, _ in points] for name, points in archived(ax).items()} == wanted


def test_topk_has_a_faint_line_a_number_of_columns_and_its_own_ceilings(tidy: Tidy):
    table = tidy("topk")
    figure, _ = both("topk", table, slower(table))
    fused = table[table["variant"].str.startswith("cuda_topk_")]
    for ax, y in zip(figure.axes, ("speedup_vs_torch", "useful_gbps"), strict=True):
        found = archived(ax)
        assert set(found) == {str(cols) for cols in fused["cols"]}
        for cols, points in found.items():
            mine = only(fused, cols=int(cols), status="ok")
            assert [value for _, value in points] == pytest.approx(
                [value / 1.25 for value in mine[y]]
            )
    ceilings = only(table, variant="copy", timer="device").set_index("cols")["useful_gbps"]
    for cols, value in ceilings.items():
        (line,) = lines(figure.axes[1], f"_copy {cols}")
        assert ys(line) == [value] * 2


@pytest.mark.parametrize(
    ("name", "cut"), [("vocab_scaling", True), ("topk", True), ("few_rows", False)]
)
def test_a_linear_axis_keeps_the_run_readable(name: str, cut: bool, tidy: Tidy):
    table = tidy(FIGURES[name])
    figure, _ = both(name, table, slower(table, 0.05 if cut else 20))
    ax = figure.axes[0]
    mine = [v for line in ax.lines if line.get_alpha() != overlay.ALPHA for v in ys(line)]
    faint = [archived(panel) for panel in figure.axes]
    most = max(v for found in faint for points in found.values() for _, v in points)
    if cut:
        assert max(mine) < ax.get_ylim()[1] < 1.1 * overlay.REACH * max(mine) < most
    else:  # a logarithmic one has room
        assert most < ax.get_ylim()[1]


def test_stale_is_what_was_measured_with_earlier_code_on_either_side(tidy: Tidy):
    table = tidy("vocab_scaling")
    old = slower(table).assign(stale=lambda t: t["variant"] == "triton_row")
    laid = overlay.under(table, old, GPU)
    assert overlay.words(laid, [GPU, "archive"]) == [
        f"faint: {GPU}, archive, with earlier code of Triton row"
    ]
    figure, _ = figure_of("vocab_scaling", laid)
    hollow = {
        text.get_text()
        for text, handle in zip(
            figure.legends[0].get_texts(), figure.legends[0].legend_handles, strict=True
        )
        if handle is not None and getattr(handle, "get_markerfacecolor", str)() == "white"
    }
    assert hollow == {"torch naive"}
    assert STALE == "torch_naive"


@pytest.fixture
def archive(tidy: Tidy, hardware: Path, tmp_path: Path) -> Path:
    """The folder of an archive, and a rerun's table beside it in tidy.csv."""
    folder = tmp_path / "archive"
    (folder / "tidy").mkdir(parents=True)
    facts = json.loads(hardware.read_text()) | {"gpu": GPU, "measured_utc": "2001-02-03T00:00:00Z"}
    (folder / "hardware.json").write_text(json.dumps(facts))
    slower(tidy("tutorial_cols")).to_csv(folder / "tidy" / "tutorial_cols.csv", index=False)
    tidy("tutorial_cols").to_csv(tmp_path / "tidy.csv", index=False)
    return folder


def drawn(archive: Path, hardware: Path, stem: str, *more: object) -> str:
    """The texts of what the command draws of the rerun beside ``archive``."""
    path = archive.with_name(stem)
    options = ["--hardware", hardware, "--stem", path, *more]
    done = run("tutorial_cols", archive.with_name("tidy.csv"), *options)
    assert done.returncode == 0, done.stderr
    return " ".join(re.findall("<!-- (.*?) -->", path.with_suffix(".svg").read_text()))


def test_legend_and_stamp_name_the_archive(archive: Path, hardware: Path):
    told = drawn(archive, hardware, "over", "--archive", archive)
    assert told.count(ENTRY) == 1
    assert f"faint: {GPU}, archive, measured 2001-02-03, full" in told
    alone = drawn(archive, hardware, "alone")
    assert GPU not in alone
    assert "faint" not in alone


@pytest.mark.parametrize("gone", ["tidy/tutorial_cols.csv", "hardware.json"])
def test_an_archive_that_is_none_is_one_sentence(gone: str, archive: Path, hardware: Path):
    (archive / gone).unlink()
    table, stem = archive.with_name("tidy.csv"), archive.with_name("x")
    options = ["--hardware", hardware, "--stem", stem, "--archive", archive]
    refused(run("tutorial_cols", table, *options), f"{archive / gone} does not exist")
