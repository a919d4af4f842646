"""The explorer shows the values of the tables, and says which line of which file they are."""

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from playwright.sync_api import Browser, Locator, Page, expect

from figures.look import LOOKS, Look
from paper.blog import contents
from tests.figures.conftest import STALE


@pytest.fixture
def tool(page: Page) -> Locator:
    return page.locator("#explorer")


def choose(tool: Locator, **choices: str) -> None:
    for name, value in choices.items():
        tool.locator(f"[data-{name}]").select_option(value)


def only(tool: Locator, variant: str) -> None:
    tool.locator("[data-none]").click()
    tool.locator(f'[data-variants] input[value="{variant}"]').check()


def four(value: float) -> str:
    """As the page writes it: four digits, thousands apart."""
    digits = float(f"{value:.4g}")
    return f"{digits:,.10f}".rstrip("0").rstrip(".")


def line_of(told: str, source: Path) -> pd.Series:
    """The row that the line of text speaks of."""
    found = re.search(r"line (\d+) of (tidy/\w+\.csv)", told)
    assert found, told
    return pd.read_csv(source / found[2]).iloc[int(found[1]) - 2]


def test_a_point_tells_the_values_of_its_line(page: Page, tool: Locator, source: Path):
    for sweep in contents.SWEEPS:
        choose(tool, sweep=sweep)
        tool.locator("[data-chart]").focus()
        told = set()
        for key in ["ArrowRight"] * 3 + ["ArrowDown"] * 2:
            page.keyboard.press(key)
            text = tool.locator("[data-readout]").inner_text()
            row = line_of(text, source)
            point = f"{row['rows']:,} × {row['cols']:,}, {row['dtype']}"
            assert text.startswith(f"{LOOKS[row['variant']].label}, {point}")
            assert row["sweep"] == sweep
            if row["status"] == "ok":
                interval = f"({four(row['ci_low_us'])} to {four(row['ci_high_us'])})"
                assert f"microseconds {four(row['median_us'])} {interval}" in text
                assert f"fraction of copy {four(row['fraction_of_copy'])}" in text
            told.add(text)
        assert len(told) > 1


def test_it_draws_every_row_that_is_chosen(tool: Locator, source: Path):
    choose(tool, sweep="vocab_scaling", dtype="float16", quantity="median_us", lie="all")
    only(tool, "triton_row")
    table = pd.read_csv(source / "tidy" / "vocab_scaling.csv")
    mine = table[(table["variant"] == "triton_row") & (table["dtype"] == "float16")]
    assert tool.locator(".point").count() == len(mine)
    tool.locator("[data-none]").click()
    assert tool.locator(".point").count() == 0
    assert "No row fits" in (tool.locator("[data-chart]").text_content() or "")
    tool.locator("[data-all]").click()
    assert tool.locator(".point").count() > len(mine)


def test_points_without_a_time_say_why(page: Page, tool: Locator, source: Path):
    choose(tool, sweep="vocab_scaling", dtype="float32")
    only(tool, "triton_online")
    tool.locator("[data-chart]").focus()
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    text = tool.locator("[data-readout]").inner_text()
    row = line_of(text, source)
    assert row["status"] == "wrong"
    assert f"wrong, {row['reason']}" in text


def test_pointing_finds_the_nearest_point(page: Page, tool: Locator, source: Path):
    choose(tool, sweep="vocab_scaling")
    only(tool, "copy")
    mark = tool.locator(".point").nth(2)
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2 + 3, box["y"] + box["height"] / 2 + 3)
    assert line_of(tool.locator("[data-readout]").inner_text(), source)["variant"] == "copy"


def test_the_link_leads_to_the_row(page: Page, tool: Locator, source: Path):
    choose(tool, sweep="cuda_ladder")
    tool.locator("[data-chart]").focus()
    page.keyboard.press("ArrowRight")
    told = tool.locator("[data-readout]").inner_text()
    tool.locator("[data-readout] a").click()
    row = line_of(told, source)
    shown = tool.locator("[data-rows] tr.on").inner_text().split("\t")
    assert shown[1] == row["variant"]
    assert float(shown[7].replace(",", "")) == pytest.approx(row["median_us"], rel=1e-3)
    assert page.url.endswith(f"#row-cuda_ladder-{shown[0]}")


def test_bandwidth_has_the_interval_of_its_time(page: Page, tool: Locator, source: Path):
    choose(tool, sweep="frontier", quantity="useful_gbps")
    tool.locator("[data-chart]").focus()
    page.keyboard.press("ArrowRight")
    text = tool.locator("[data-readout]").inner_text()
    row = line_of(text, source)
    found = re.search(r"useful GB/s ([\d.,]+) \(([\d.,]+) to ([\d.,]+)\)", text)
    assert found
    times = row[["median_us", "ci_high_us", "ci_low_us"]].to_numpy(float)
    want = row["useful_gbps"] * row["median_us"] / times
    assert [float(n.replace(",", "")) for n in found.groups()] == pytest.approx(want, rel=2e-3)


def test_axes_are_linear_or_logarithmic(tool: Locator, source: Path):
    choose(tool, sweep="vocab_scaling", dtype="float32", lie="all")
    only(tool, "torch_eager")
    table = pd.read_csv(source / "tidy" / "vocab_scaling.csv")
    mine = table[(table["variant"] == "torch_eager") & (table["dtype"] == "float32")]
    mine = mine.sort_values("cols")
    values = mine["cols"].to_numpy(float), mine["fraction_of_copy"].to_numpy()

    def is_scaled(x_log: bool, y_log: bool) -> None:
        """Places are where a line through the first and the last would have the values."""
        tool.locator("[data-x-log]").set_checked(x_log)
        tool.locator("[data-y-log]").set_checked(y_log)
        marks = tool.locator(".point").evaluate_all(
            "all => all.map(p => p.getAttribute('transform'))"
        )
        places = np.array([[float(v) for v in re.findall(r"[\d.]+", mark)] for mark in marks]).T
        for place, value, log in zip(places, values, (x_log, y_log), strict=True):
            scaled = np.log(value) if log else value
            ends = [np.argmin(scaled), np.argmax(scaled)]
            want = np.interp(scaled, scaled[ends], place[ends])
            np.testing.assert_allclose(place, want, atol=0.6)

    for x_log in (True, False):
        for y_log in (True, False):
            is_scaled(x_log, y_log)


def test_a_sweep_of_both_axes_holds_one(tool: Locator):
    choose(tool, sweep="few_rows", axis="rows")
    fixed = tool.locator("[data-fixed]")
    assert fixed.is_visible()
    only(tool, "frontier")
    widths = tool.locator("[data-fixed] option").evaluate_all("all => all.map(o => o.value)")
    assert len(widths) > 1
    for width in widths:
        choose(tool, fixed=width)
        assert tool.locator(".point").count() > 1
    xs = tool.locator(".point").evaluate_all(
        "all => all.map(p => p.getAttribute('transform').split(' ')[0])"
    )
    assert len(xs) == len(set(xs))
    choose(tool, sweep="vocab_scaling", axis="cols")
    assert not fixed.is_visible()


def test_rows_off_a_boundary_are_apart(tool: Locator, source: Path):
    choose(tool, sweep="frontier", dtype="bfloat16")
    only(tool, "frontier")
    table = pd.read_csv(source / "tidy" / "frontier.csv")
    mine = table[(table["variant"] == "frontier") & (table["dtype"] == "bfloat16")]
    whole = int((mine["cols"] % 8 == 0).sum())
    assert tool.locator(".point").count() == whole
    choose(tool, lie="off 16 bytes")
    assert tool.locator(".point").count() == len(mine) - whole > 0


def test_a_chosen_point_outlives_a_change_of_the_window(page: Page, tool: Locator):
    choose(tool, sweep="worklog")
    tool.locator("[data-chart]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    told = tool.locator("[data-readout]").inner_text()
    tool.locator("[data-readout] a").click()
    expect(tool.locator("[data-rows] tr.on")).to_be_in_viewport()
    before = tool.locator("[data-chart]").get_attribute("viewBox")
    page.set_viewport_size({"width": 390, "height": 700})
    expect(tool.locator("[data-chart]")).not_to_have_attribute("viewBox", before or "")
    assert tool.locator("[data-readout]").inner_text() == told
    assert tool.locator(".point.on").count() == 1
    assert tool.locator("[data-rows] tr.on").count() == 1


@pytest.mark.parametrize("sweep", ["vocab_scaling", "few_rows", contents.SWEEPS[-1]])
def test_an_address_leads_to_its_row(browser: Browser, html: Path, source: Path, sweep: str):
    table = pd.read_csv(source / "tidy" / f"{sweep}.csv")
    # The last row, as far as can be from what the page shows at first.
    last = table[table["variant"].isin(LOOKS)].iloc[-1]
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{html.as_uri()}#row-{sweep}-{last.name + 2}")
        tool = page.locator("#explorer")
        assert tool.locator("[data-sweep]").input_value() == sweep
        assert tool.locator("[data-dtype]").input_value() == last["dtype"]
        row = tool.locator("[data-rows] tr.on")
        expect(row).to_be_in_viewport()
        cells = row.inner_text().split("\t")
        assert [cells[0], cells[1], cells[4], cells[5]] == [
            str(last.name + 2), last["variant"], str(last["rows"]), str(last["cols"])
        ]  # fmt: skip
        assert tool.locator(".point.on").count() == 1
        assert f"line {last.name + 2} of" in tool.locator("[data-readout]").inner_text()


@pytest.mark.parametrize("name", ["row-vocab_scaling-1", "row-nothing-2", "row-constructor-2"])
def test_an_address_of_no_row_changes_nothing(page: Page, html: Path, name: str):
    page.goto(f"{html.as_uri()}#{name}")
    page.reload()
    assert page.locator("#explorer tr.on").count() == 0
    assert page.locator("#explorer .point").count() > 0


def faces(marks: Locator) -> set[str | None]:
    """What ``marks`` are filled with."""
    return {mark.get_attribute("fill") for mark in marks.all()}


def test_points_of_earlier_code_are_hollow(page: Page, tool: Locator):
    choose(tool, sweep="vocab_scaling")
    label, told = LOOKS[STALE].label, "measured with earlier code"
    only(tool, STALE)
    assert faces(tool.locator(".point .marker")) == {"#fff"}
    expect(tool.locator("[data-hollow]")).to_be_visible()
    expect(tool.locator("[data-hollow]")).to_have_text(f"Hollow markers: {told} of {label}.")
    tool.locator("[data-chart]").focus()
    page.keyboard.press("ArrowRight")
    assert f"Hollow: {told}" in tool.locator("[data-readout]").inner_text()
    only(tool, "torch_eager")
    assert faces(tool.locator(".point .marker")) == {LOOKS["torch_eager"].colour}
    expect(tool.locator("[data-hollow]")).to_be_hidden()
    for name, face in {STALE: "#fff", "torch_eager": LOOKS["torch_eager"].colour}.items():
        key = tool.locator(f'[data-variants] label:has(input[value="{name}"]) .marker')
        assert faces(key) == {face}


SIZE = 40.0


def in_a_figure(style: Look) -> np.ndarray:
    """The corners of the marker that a figure with ``style`` has in its SVG."""
    figure, file = Figure(), io.StringIO()
    line = style.line([0.5], [0.5])
    line.set(markersize=SIZE, transform=figure.transFigure)
    figure.add_artist(line)
    figure.savefig(file, format="svg", metadata={"Date": None})
    found = re.search(r'<path id="m[^"]*" d="([^"]*)"', file.getvalue())
    assert found
    return corners(found[1]) / SIZE


def corners(path: str) -> np.ndarray:
    return np.array([float(number) for number in re.findall(r"-?[\d.]+", path)])


def test_markers_are_those_of_the_figures(page: Page):
    looks = page.evaluate("JSON.parse(document.getElementById('explorer-data').textContent).looks")
    markers = {name: look["marker"] for name, look in looks.items() if name in LOOKS}
    assert len(markers) > 20
    for name, marker in markers.items():
        if not LOOKS[name].marker:
            assert marker is None
            continue
        np.testing.assert_allclose(
            corners(marker["path"]), in_a_figure(LOOKS[name]), atol=2e-3, err_msg=name
        )


# Whether a marker covers its box's corners on the left, and those on the right.
COVERED = """e => {
  const box = e.getBoundingClientRect();
  const turned = e.getScreenCTM().inverse();
  const inside = (x, y) => e.isPointInFill(new DOMPoint(x, y).matrixTransform(turned));
  return [box.left + 1.5, box.right - 1.5].map(x =>
    [box.top + 2, box.bottom - 2].some(y => inside(x, y)));
}"""


def test_a_marker_points_where_the_figures_does(tool: Locator):
    choose(tool, sweep="cuda_ladder")
    only(tool, "cuda_thread_row")
    assert LOOKS["cuda_thread_row"].marker == "<"
    assert tool.locator(".point .marker").first.evaluate(COVERED) == [False, True]


def across(tool: Locator) -> list[str]:
    """The numbers along the x axis."""
    texts = tool.locator("[data-chart] text[text-anchor=middle]").all_text_contents()
    return [text for text in texts if re.search(r"\d", text)]


def test_one_width_off_a_power_of_two_has_its_number(tool: Locator):
    choose(tool, sweep="vocab_scaling", dtype="float32", lie="off 16 bytes")
    assert across(tool) == ["50,257"]


def test_every_axis_has_numbers(page: Page):
    for xs, want in {
        (50_257,): ["50,257"],
        (2200, 2210, 3000): ["2,200", "3,000"],
        (3000, 3001, 3002): ["3,000"],
        (2048, 4096): ["2k", "4k"],
        (64, 2**20): ["64", "512", "4k", "32k", "256k"],
    }.items():
        points = [{"x": x, "y": 1, "low": 1, "high": 1, "index": 0} for x in xs]
        page.evaluate(
            """points => Chart.draw(document.querySelector("[data-chart]"),
                [{ look: { colour: "#000", dash: [], marker: null }, points }],
                { xLog: true, yLog: false, xLabel: "", yLabel: "" }, 390)""",
            points,
        )
        assert across(page.locator("#explorer")) == want
