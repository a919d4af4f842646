"""Each script draws what its table holds, and drops no point."""

from importlib import import_module
from typing import Literal

import matplotlib.style
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.sweeps.sweep import EXACT
from experiments.tables import gbps, useful_bytes
from figures import FIGURES, numerics, page, resources
from figures.curves import human, linear_axis, log2_axis, log2_ticks, with_bandwidth_interval
from figures.look import drawn
from tests.figures.conftest import STALE, resources_of

NO_CURVES = ("course_shapes", "launch", "numerics", "topk")
CURVES = [name for name in FIGURES if name not in NO_CURVES]
# Those with points of every kind in the synthetic tables.
SWEPT = ["vocab_scaling", "fraction_of_copy", "batch_scaling", "batch_latency", "small_batch"]


def figure_of(
    name: str, table: pd.DataFrame, share_y: Literal["all", "row"] = "all"
) -> tuple[Figure, page.Grid]:
    grid = import_module(f"figures.{name}").panels(table[table["variant"].map(drawn)])
    with matplotlib.style.context(page.HERE / "paper.mplstyle"):
        return page.compose(grid, "a note", page.MEDIA[1], share_y), grid


def lines(ax: Axes, label: str) -> list[Line2D]:
    return [line for line in ax.lines if line.get_label() == label]


def xs(line: Line2D) -> list[float]:
    """Of points that are there; where a line is broken there is none."""
    x, y = map(np.asarray, line.get_data())
    return x[~np.isnan(y)].tolist()


def ys(line: Line2D) -> list[float]:
    return [y for y in np.asarray(line.get_ydata()).tolist() if not np.isnan(y)]


def only(table: pd.DataFrame, **wanted: object) -> pd.DataFrame:
    for column, value in wanted.items():
        table = table[table[column] == value]
    return table


@pytest.mark.parametrize("name", CURVES)
def test_every_point_is_on_its_panel(name: str, tidy):
    figure, grid = figure_of(name, tidy(FIGURES[name]))
    panels = [panel for row in grid for panel in row]
    assert len(panels) == len(figure.axes)
    x = "rows" if name in ("batch_scaling", "batch_latency", "small_batch", "few_rows") else "cols"
    for i, (panel, ax) in enumerate(zip(panels, figure.axes, strict=True)):
        timer = "call" if name == "small_batch" and i >= len(panels) // 2 else "device"
        timer = "host" if name == "smoke" else timer
        for variant in panel.table["variant"].unique():
            mine = only(panel.table, variant=variant)
            for status in ("skipped", "wrong"):
                marks = lines(ax, f"_{variant} {status}")
                drawn_at = sorted(v for mark in marks for v in xs(mark))
                assert drawn_at == sorted(only(mine, status=status)[x]), (variant, status)
            if variant == "copy" and name in ("fraction_of_copy", "frontier"):
                continue
            curve = lines(ax, f"_{variant}{' stale' if variant == STALE else ''}")
            at = sorted(v for line in curve for v in xs(line))
            assert at == sorted(only(mine, status="ok", timer=timer)[x]), variant


@pytest.mark.parametrize("name", SWEPT)
def test_skipped_wrong_and_stale_points_are_seen(name: str, tidy):
    figure, _ = figure_of(name, tidy(FIGURES[name]))
    labels = {str(line.get_label()) for ax in figure.axes for line in ax.lines}
    assert "_triton_online wrong" in labels
    assert any(label.endswith(" skipped") for label in labels)
    hollow = [line for ax in figure.axes for line in lines(ax, f"_{STALE} stale")]
    assert hollow
    assert all(line.get_markerfacecolor() == "white" for line in hollow)
    assert "skipped / wrong" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_of_a_curve_only_the_stale_points_are_hollow(tidy):
    table = tidy("vocab_scaling")
    old = (table["variant"] == "triton_row") & (table["cols"] > 20_000)
    figure, grid = figure_of("vocab_scaling", table.assign(stale=old))
    for panel, ax in zip((p for row in grid for p in row), figure.axes, strict=True):
        mine = only(panel.table, variant="triton_row", status="ok", timer="device")
        (curve,), (marks,) = lines(ax, "_triton_row"), lines(ax, "_triton_row stale")
        assert sorted(xs(curve)) == sorted(mine["cols"])
        assert sorted(xs(marks)) == sorted(mine.loc[mine["cols"] > 20_000, "cols"])
        assert curve.get_markerfacecolor() != "white" == marks.get_markerfacecolor()
        assert marks.get_linestyle() == "None"
    faces = [getattr(h, "get_markerfacecolor", str)() for h in figure.legends[0].legend_handles]
    assert "white" not in faces


@pytest.mark.parametrize("name", SWEPT)
def test_marks_lie_inside_their_panel_and_below_the_data(name: str, tidy):
    figure, _ = figure_of(name, tidy(FIGURES[name]))
    for ax in figure.axes:
        bottom, top = ax.get_ylim()
        for line in ax.lines:
            label, heights = str(line.get_label()), ys(line)
            if label.endswith((" skipped", " wrong")):
                highest = ax.transAxes.transform((0, max(heights)))[1]
                lowest_curve = min(
                    ax.transData.transform((1, min(ys(c))))[1]
                    for c in ax.lines
                    if c.get_transform() == ax.transData and ys(c)
                )
                assert min(heights) > 0
                assert highest < lowest_curve
            elif line.get_transform() == ax.transData and heights:
                assert bottom <= min(heights)
                assert max(heights) <= top


def test_a_legend_without_bad_points_does_not_speak_of_them(tidy):
    table = tidy("vocab_scaling")
    figure, _ = figure_of("vocab_scaling", table[table["status"] == "ok"])
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert not any("skipped" in text or "wrong" in text for text in texts)


def test_a_point_without_its_copy_is_marked_not_dropped(tidy):
    table = tidy("vocab_scaling")
    alone = (table["variant"] == "torch_eager") & (table["cols"] == 1024)
    table.loc[alone, ["fraction_of_copy", "fraction_low", "fraction_high"]] = float("nan")
    figure, _ = figure_of("fraction_of_copy", table)
    for ax in figure.axes:
        assert [xs(mark) for mark in lines(ax, "_torch_eager skipped")] == [[1024]]


def test_fraction_of_copy_has_the_line_at_one(tidy):
    figure, _ = figure_of("fraction_of_copy", tidy("vocab_scaling"))
    for ax in figure.axes:
        assert [ys(line) for line in lines(ax, "copy (ceiling)")] == [[1.0, 1.0]]


def test_the_interval_of_a_bandwidth_is_that_of_its_time(tidy):
    table = with_bandwidth_interval(only(tidy("vocab_scaling"), status="ok"))
    row = table.iloc[0]
    size = useful_bytes(row["rows"], row["cols"], row["dtype"])
    assert row["gbps_low"] == gbps(size, row["ci_high_us"])
    assert (table["gbps_low"] <= table["useful_gbps"]).all()
    assert (table["useful_gbps"] <= table["gbps_high"]).all()


def test_small_batch_has_callers_below_only_where_calls_were_timed(tidy):
    table = tidy("small_batch")
    assert len(figure_of("small_batch", table)[1]) == 2
    assert len(figure_of("small_batch", table[table["timer"] != "call"])[1]) == 1


def test_every_shape_of_the_course_has_a_mark_of_every_variant_for_both_timers(tidy):
    table = tidy("course_shapes")
    compiled = table["variant"] == "torch_compile"
    table = table[~compiled | (table["timer"] == "device")].copy()
    table.loc[compiled, ["status", "median_us"]] = "wrong", np.nan
    figure, (panels,) = figure_of("course_shapes", table)
    for panel, ax, timer in zip(panels, figure.axes, ("device", "call"), strict=True):
        for variant in panel.table["variant"].unique():
            if variant == "torch_compile":
                assert len(lines(ax, "_torch_compile wrong")) == 6
                continue
            (marks,) = lines(ax, f"_{variant}")
            wanted = only(panel.table, variant=variant, status="ok", timer=timer)["median_us"]
            assert sorted(xs(marks)) == sorted(wanted)
            assert [round(h) for h in ys(marks)] == [0, 1, 2, 3, 4, 5]


def test_launch_leads_from_the_devices_time_to_the_callers(tidy):
    table = tidy("launch")
    table.loc[table["variant"] == "cuda_split_reread", ["status", "median_us"]] = "skipped", np.nan
    figure, (panels,) = figure_of("launch", table)
    assert [ax.get_title() for ax in figure.axes] == [
        "64 x 128, float32", "64 x 1,024, float32", "64 x 8,192, float32",
    ]  # fmt: skip
    for panel, ax in zip(panels, figure.axes, strict=True):
        assert [text.get_text() for text in ax.texts] == ["not timed"]
        for variant in set(panel.table["variant"]) - {"cuda_split_reread"}:
            mine = only(panel.table, variant=variant, status="ok").set_index("timer")["median_us"]
            (line,) = lines(ax, f"_{variant}")
            assert xs(line) == [mine["device"], mine["call"]]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["on the device", "as a caller waits"]


def test_numerics_sets_error_against_speed(tidy):
    table = tidy("numerics")
    figure, (panels,) = figure_of("numerics", table)
    for panel, ax in zip(panels, figure.axes, strict=True):
        timed = only(panel.table, status="ok").set_index("variant")
        for point in timed.drop("copy").itertuples():
            (mark,) = lines(ax, f"_{point.Index}")
            assert (xs(mark), ys(mark)) == ([point.fraction_of_copy], [point.max_rel_err])
        for published, exact in EXACT.items():
            joined = lines(ax, f"_{published} to {exact}")
            ends = timed.reindex([published, exact])["fraction_of_copy"].dropna().tolist()
            assert [xs(line) for line in joined] == ([ends] if ends else [])


def test_numerics_names_what_has_no_time(tidy):
    # A warp holds 8192 columns.
    said = "not timed at 32,768 columns: CUDA warp a row, CUDA warp a row, expf"
    assert numerics.not_timed(tidy("numerics")) == said


def test_worklog_sets_the_exact_forms_beside_the_published_ones(tidy):
    _, (panels,) = figure_of("worklog", tidy("worklog"))
    published, exact, others = ({*panel.table["variant"]} - {"copy"} for panel in panels)
    assert published == set(EXACT)
    assert exact == set(EXACT.values())
    assert not others & (published | exact)


def test_topk_has_a_line_a_number_of_columns_in_both_panels(tidy):
    table, gone = tidy("topk"), {"status": "wrong", "timer": "none"}
    one = (table["variant"] == "cuda_topk_16") & (table["cols"] == 1000)
    empty = ["median_us", "useful_gbps", "speedup_vs_torch"]
    table.loc[one, [*gone, *empty]] = [*gone.values(), *[np.nan] * len(empty)]
    table.loc[(table["variant"] == "cuda_topk_2") & (table["cols"] == 4000), "stale"] = True
    figure, grid = figure_of("topk", table)
    fused = table[table["variant"].str.startswith("cuda_topk_")]
    for ax, y in zip(figure.axes, ("speedup_vs_torch", "useful_gbps"), strict=True):
        for cols, mine in fused.groupby("cols"):
            (line,) = lines(ax, f"{cols:,} columns")
            timed = only(mine, status="ok").set_index("variant")[y]
            assert {f"cuda_topk_{k:.0f}": v for k, v in zip(xs(line), ys(line), strict=True)} == (
                timed.to_dict()
            )
            assert (line.get_markerfacecolor() == "white") == (cols == 4000)
        (mark,) = lines(ax, "_1000 wrong")
        assert xs(mark) == [16]
    (torch,) = lines(figure.axes[0], "torch.softmax, then torch.topk")
    assert ys(torch) == [1, 1]
    copies = table[(table["variant"] == "copy") & (table["timer"] == "device")]
    assert len(copies) == fused["cols"].nunique()
    for row in copies.itertuples():
        (ceiling,) = lines(figure.axes[1], f"_copy {row.cols}")
        (line,) = lines(figure.axes[1], f"{row.cols:,} columns")
        assert ys(ceiling) == [row.useful_gbps] * 2
        assert ceiling.get_color() == line.get_color()
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "copy (ceiling)" in texts
    assert "wrong" in texts
    assert len(grid) == 2


def test_headline_figures_leave_the_triton_variants_to_their_own(tidy):
    table = tidy("vocab_scaling")
    shown, apart = (
        {variant for row in grid for panel in row for variant in panel.table["variant"]}
        for _, grid in (figure_of(name, table) for name in ("vocab_scaling", "triton_paths"))
    )
    assert "triton_tiled_1024" not in shown
    assert shown | apart == {v for v in table["variant"] if drawn(v)}


def test_cuda_ladder_marks_the_published_crossing(tidy):
    figure, _ = figure_of("cuda_ladder", tidy("cuda_ladder"))
    for ax in figure.axes:
        (line,) = lines(ax, "14,080 columns: S4's crossing")
        assert xs(line) == [14_080, 14_080]


def test_batch_latency_ends_at_16_mb(tidy):
    _, grid = figure_of("batch_latency", tidy("batch_scaling"))
    for panel in (panel for row in grid for panel in row):
        (dtype,), (cols,) = panel.table["dtype"].unique(), panel.table["cols"].unique()
        rows = panel.table["rows"].max()
        assert useful_bytes(rows, cols, dtype) <= 16e6 < useful_bytes(2 * rows, cols, dtype)


def test_panels_share_axes(tidy):
    figure, grid = figure_of("batch_scaling", tidy("batch_scaling"))
    assert (len(grid), len(grid[0])) == (2, 3)
    assert len({ax.get_ylim() for ax in figure.axes}) == 1
    assert len({ax.get_xlim() for ax in figure.axes}) == 1


def test_a_panel_without_data_says_so(tidy):
    table = tidy("batch_scaling")
    table = table[(table["dtype"] == "float32") | (table["cols"] != 1024)]
    figure, _ = figure_of("batch_scaling", table)
    assert [[t.get_text() for t in ax.texts] for ax in figure.axes].count(["not measured"]) == 1


def test_a_variant_without_a_look_is_drawn(tidy):
    table = tidy("vocab_scaling").replace({"variant": {"cuda_float4": "peer_new"}})
    figure, _ = figure_of("vocab_scaling", table)
    assert lines(figure.axes[0], "_peer_new")
    assert "peer_new" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_resources_draws_what_holds_columns_and_the_limit():
    tables = pd.concat([resources_of("sm_80"), resources_of("sm_90")])
    grid = resources.panels(tables)
    with matplotlib.style.context(page.HERE / "paper.mplstyle"):
        figure = page.compose(grid, resources.stamp(tables), page.MEDIA[1], "row")
    assert [ax.get_title() for ax in figure.axes] == ["sm_80", "sm_90", "", ""]
    for ax in figure.axes[:2]:
        assert max(ys(ax.get_lines()[-1])) == resources.MOST_REGISTERS
        assert ax.get_ylim()[1] > resources.MOST_REGISTERS
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["Triton row", "Triton hybrid", "limit: 255 registers"]


def test_resources_sets_spills_apart_on_a_log_axis_with_zero():
    tables = resources_of("sm_90")
    with matplotlib.style.context(page.HERE / "paper.mplstyle"):
        figure = page.compose(resources.panels(tables), "", page.MEDIA[1], "row")
    bottom, top = figure.axes[1].get_ylim()
    assert bottom < 0 < tables["spill_bytes"].max() < top
    assert [human(t) for t in figure.axes[1].get_yticks()][:4] == ["0", "16", "64", "256"]


def test_resources_says_which_variants_stream():
    assert "stream them: Triton online, CUDA float4" in resources.stamp(resources_of("sm_90"))


def test_resources_names_what_did_not_compile():
    note = resources.stamp(resources_of("sm_90"))
    assert "NVRTC 13.0.88, Triton 3.7.1" in note
    assert "did not compile: triton_online float16 sm_90" in note


@pytest.mark.parametrize(
    ("value", "text"), [(64, "64"), (1000, "1000"), (1024, "1k"), (32_768, "32k"), (2**20, "1M")]
)
def test_ticks_are_read_by_people(value: int, text: str):
    assert human(value) == text


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (12_672, [0, 4096, 8192, 12_288]),
        (6143, [0, 1024, 2048, 3072, 4096, 5120]),
        (6144, [0, 2048, 4096, 6144]),  # steps of 1024 would be a seventh label
        (5, [0, 1, 2, 3, 4, 5]),
        (2, [0, 1, 2]),
        (1, [0, 1]),
    ],
)
def test_ticks_of_a_linear_axis_are_few_whole_multiples_of_a_power_of_two(
    highest: int, ticks: list[int]
):
    ax = Figure().subplots()
    linear_axis(ax, [1, highest])
    assert ax.get_xticks().tolist() == ticks
    assert ax.get_xlim() == (0, pytest.approx(1.03 * highest))
    assert not len(ax.get_xticks(minor=True))


def test_a_linear_axis_holds_the_panels_that_share_it():
    wide, narrow, empty = Figure().subplots(1, 3, sharex=True)
    for ax, values in ((wide, [100]), (narrow, [50]), (empty, [])):
        linear_axis(ax, values)
    assert wide.get_xlim() == (0, pytest.approx(103))


def test_a_log_axis_reaches_what_is_not_drawn_too():
    ax = Figure().subplots()
    ax.plot([4, 64], [1, 2])
    log2_axis(ax, [1, 256])
    assert ax.get_xlim() == pytest.approx((1 / 1.5, 256 * 1.5))
    assert list(ax.dataLim.intervaly) == [1, 2]


def test_a_linear_axis_of_nothing_is_left_alone():
    ax = Figure().subplots()
    linear_axis(ax, [])
    assert ax.get_xlim() == (0, 1)


def test_ticks_are_few_powers_of_two():
    assert log2_ticks(64, 2**20) == [64, 1024, 16_384, 262_144]
    assert log2_ticks(1, 256) == [1, 4, 16, 64, 256]
    assert log2_ticks(1000, 1000) == []
