"""The visualiser: each algorithm reaches the softmax of float64, and counts what it moves."""

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

ALGORITHMS = ("fast", "three", "online", "split")
INF = float("inf")


def reference(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


def trace(page: Page, x: np.ndarray, block: int, algorithm: str) -> list[dict[str, Any]]:
    return page.evaluate("([x, b, a]) => Softmax.trace(x, b, a)", [x.tolist(), block, algorithm])


def moved(rows: int, cols: int, block: int, algorithm: str) -> tuple[int, int]:
    """Elements read and written."""
    n, parts = rows * cols, math.ceil(cols / block)
    match algorithm:
        case "fast":
            return n, n
        case "three":
            return 3 * n, n
        case "online":
            return 2 * n, n
        case _:  # every part leaves a pair, and every part reads all pairs
            return 2 * n + rows * 2 * parts**2, n + rows * 2 * parts


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_it_computes_and_counts_as_the_reference_does(page: Page, algorithm: str):
    draw = np.random.default_rng(5)
    for rows, cols, block in [(1, 2, 1), (2, 8, 2), (3, 7, 4), (4, 16, 16), (4, 13, 1), (2, 5, 8)]:
        for scale in (1, 30, 1000):
            x = draw.normal(scale=scale, size=(rows, cols))
            steps = trace(page, x, block, algorithm)
            last = steps[-1]
            np.testing.assert_allclose(last["out"], reference(x), rtol=1e-12, atol=1e-300)
            np.testing.assert_array_equal(last["max"], x.max(1))
            want = np.exp(x - x.max(1, keepdims=True)).sum(1)
            np.testing.assert_allclose(last["sum"], want, rtol=1e-12)
            assert (last["reads"], last["writes"]) == moved(rows, cols, block, algorithm)
            # What is known only grows, and a step tells of its block.
            for before, after in itertools.pairwise(steps):
                assert after["reads"] >= before["reads"]
                assert after["writes"] >= before["writes"]
            assert all(0 <= s["first"] < s["last"] <= cols for s in steps[1:-1])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_maximum_never_falls_on_the_way(page: Page, algorithm: str):
    x = np.array([[3, 2, 1, 0, -1], [-4, 2, 7, 7, 9]])
    for before, after in itertools.pairwise(trace(page, x, 2, algorithm)):
        for low, high in zip(before["max"], after["max"], strict=True):
            assert low is None or low <= high


def test_a_split_row_is_pairs_of_all_rows_and_then_outputs(page: Page):
    x = np.array([[3, 2, 1, 0, -1], [-4, 2, 7, 7, 9]])
    steps = trace(page, x, 2, "split")
    launches = [(step["told"][:8], step["row"], step["first"]) for step in steps[1:-1]]
    blocks = [(row, first) for row in (0, 1) for first in (0, 2, 4)]
    assert launches == [(f"Launch {n}", *block) for n in (1, 2) for block in blocks]
    # No block knows the row's maximum before the pairs are merged.
    assert all(step["max"] == [None, None] for step in steps[: 1 + len(blocks)])
    for (row, first), before, after in zip(blocks, steps, steps[1:], strict=False):
        part = x[row, first : first + 2]
        want = {"max": part.max(), "sum": pytest.approx(np.exp(part - part.max()).sum())}
        assert before["pairs"][row][first // 2] is None
        assert after["pairs"][row][first // 2] == want


# A row of -inf is NaN, as torch's; a part that is -inf is not.
SPECIAL = (
    [-INF, 1, 2, 3], [1, 2, -INF, -INF], [-INF, -INF, 0, 5], [-INF] * 4,
    [1, INF, 2, 3], [1, float("nan"), 2, 3], [-1000, -1000, -1000, -1001],
)  # fmt: skip


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_special_rows_are_those_of_torch(page: Page, algorithm: str):
    for row in SPECIAL:
        x = np.array([row])
        out = trace(page, x, 2, algorithm)[-1]["out"]
        np.testing.assert_allclose(
            np.array(out, dtype=float), reference(x), 1e-12, err_msg=f"{row}"
        )


def test_an_unknown_algorithm_is_named(page: Page):
    with pytest.raises(Exception, match="unknown algorithm 'four'; known: fast, three"):
        trace(page, np.ones((1, 2)), 1, "four")


NUMBER = "was typed; expected a number such as 1.5, or -inf, and blanks between numbers"
BAD = {
    "1 2\n3": "rows of 2 and 1 numbers were typed; expected as many in each",
    "1 x": f"'x' {NUMBER}",
    "1": "1 column was typed; expected 2 to 16",
    "1 2\n" * 5: "5 rows were typed; expected 1 to 4",
    "": "0 rows were typed; expected 1 to 4",
    "1,5 2": f"'1,5' {NUMBER}",
    "0x10 2": f"'0x10' {NUMBER}",
    "Infinity 2": f"'Infinity' {NUMBER}",
    "inf 2": f"'inf' {NUMBER}",
    "1e400 2": "'1e400' was typed, which is too large; expected a finite number, or -inf",
}


def test_bad_input_is_told_and_nothing_changes(page: Page):
    tool = opened(page)
    before = tool.locator("[data-input]").inner_text()
    for text, told in BAD.items():
        tool.locator("[data-typed]").fill(text)
        tool.locator("[data-take]").click()
        assert tool.locator("[data-error]").inner_text() == f"{told}."
        assert tool.locator("[data-input]").inner_text() == before


def opened(page: Page) -> Locator:
    tool = page.locator("#visualiser")
    tool.locator("summary").click()
    return tool


def cells(tool: Locator, name: str) -> list[list[str]]:
    rows = tool.locator(f"[data-{name}] tr").all_inner_texts()
    return [row.split("\t") for row in rows]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_typed_input_reaches_the_right_result_by_hand(page: Page, algorithm: str):
    x = np.array([[1.5, -2, 0.25, 3, -INF], [10, 9, 8, 7, 6]])
    tool = opened(page)
    tool.locator("[data-typed]").fill("1.5 -2 0.25 3 -inf\n10, 9, 8, 7, 6")
    tool.locator("[data-take]").click()
    tool.locator("[data-algorithm]").select_option(algorithm)
    if algorithm != "fast":
        tool.locator("[data-block]").select_option("2")
    while tool.locator("[data-forward]").is_enabled():
        tool.locator("[data-forward]").click()
    y = reference(x)
    assert [row[1:] for row in cells(tool, "output")] == [[f"{v:.3f}" for v in r] for r in y]
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nansum(y * np.log2(y), axis=1)
    known = cells(tool, "known")
    assert [row[3] for row in known] == ["1.0000", "1.0000"]
    np.testing.assert_allclose([float(row[4]) for row in known], entropy, atol=6e-5)
    reads, writes = moved(2, 5, 2 if algorithm != "fast" else 8, algorithm)
    assert tool.locator("[data-reads]").inner_text() == f"{reads} ({reads / 10:.2f} an element)"
    assert tool.locator("[data-writes]").inner_text() == f"{writes} ({writes / 10:.2f} an element)"


def take(tool: Locator, text: str) -> None:
    tool.locator("[data-typed]").fill(text)
    tool.locator("[data-take]").click()


def test_what_was_typed_is_kept_until_it_is_taken(page: Page):
    tool = opened(page)
    typed = tool.locator("[data-typed]")
    typed.fill("1 2 3 4")
    for name, value in {"algorithm": "split", "block": "2", "rows": "3", "cols": "6"}.items():
        tool.locator(f"[data-{name}]").select_option(value)
        assert typed.input_value() == "1 2 3 4"
    tool.locator("[data-random]").click()
    assert [len(row.split()) for row in typed.input_value().split("\n")] == [6] * 3
    take(tool, "1, 2,\n3, 4e0")
    assert typed.input_value() == "1 2\n3 4"
    tool.locator("[data-cols]").select_option("4")
    assert [len(row.split()) for row in typed.input_value().split("\n")] == [4] * 2


def test_numbers_have_the_digits_that_they_need(page: Page):
    told = {
        "0.04": "0.04", "0.25": "0.25", "-2": "-2", "0.5": "0.5", "-12.25": "-12.3",
        "1234.5": "1235", "0": "0", "1e20": "1e20", "-123456": "-1.23e5", "0.0001": "1e-4",
        "1.00e5": "1e5", "1.05e9": "1.05e9", "-inf": "−∞",
    }  # fmt: skip
    tool = opened(page)
    take(tool, " ".join(told))
    assert cells(tool, "input")[0][1:] == list(told.values())
    take(tool, "0.04 0.25")
    while tool.locator("[data-forward]").is_enabled():
        tool.locator("[data-forward]").click()
    assert cells(tool, "known")[0][1] == "0.25"


def test_a_split_row_shows_a_pair_for_every_block(page: Page):
    tool = opened(page)
    take(tool, "3 2 1 0 -1")
    tool.locator("[data-block]").select_option("2")
    assert cells(tool, "pairs") == []
    tool.locator("[data-algorithm]").select_option("split")
    seen = []
    for _ in range(5):
        (high, total), (known,) = cells(tool, "pairs"), cells(tool, "known")
        seen.append((high[1:], total[1:], known[1]))
        tool.locator("[data-forward]").click()
    assert seen == [
        (["–", "–", "–"], ["–", "–", "–"], "–"),
        (["3", "–", "–"], ["1.368", "–", "–"], "–"),
        (["3", "1", "–"], ["1.368", "1.368", "–"], "–"),
        (["3", "1", "-1"], ["1.368", "1.368", "1.000"], "–"),
        (["3", "1", "-1"], ["1.368", "1.368", "1.000"], "3"),
    ]
    assert len(cells(tool, "input")[0]) == 6


# Of the cells at work in the stage: how far they lie inside, on the left and on the right.
INSIDE = """stage => {
  const cells = [...stage.querySelectorAll("[data-input] .now, [data-output] .now")];
  const boxes = cells.map(cell => cell.getBoundingClientRect());
  const from = stage.querySelector("th").getBoundingClientRect().right;
  const to = stage.getBoundingClientRect().right;
  return boxes.flatMap(box => [box.left - from, to - box.right]);
}"""


@pytest.mark.parametrize("algorithm", ["three", "online", "split"])
def test_what_is_at_work_is_in_sight_on_a_phone(page: Page, algorithm: str):
    page.set_viewport_size({"width": 390, "height": 844})
    tool = page.locator("#visualiser")
    tool.locator("[data-rows]").select_option("1")
    tool.locator("[data-cols]").select_option("16")
    tool.locator("[data-algorithm]").select_option(algorithm)
    stage = tool.locator("[data-stage]")
    stage.focus()
    place = page.evaluate("scrollY")
    inner = int(tool.locator("[data-step]").get_attribute("max") or 0) - 1
    for key in ["ArrowRight"] * inner + ["ArrowLeft"] * (inner - 1):
        page.keyboard.press(key)
        inside = stage.evaluate(INSIDE)
        assert len(inside) >= 8
        # A place is a whole number of pixels.
        assert min(inside) >= -1
    assert stage.evaluate("e => e.scrollWidth > e.clientWidth")
    assert page.evaluate("scrollY") == place


def test_shift_and_arrows_scroll_the_stage(page: Page):
    page.set_viewport_size({"width": 390, "height": 844})
    tool = page.locator("#visualiser")
    tool.locator("[data-cols]").select_option("16")
    stage = tool.locator("[data-stage]")
    stage.focus()
    for _ in range(20):
        page.keyboard.press("Shift+ArrowRight")
    expect(stage.locator("[data-input] tr").first.locator("td").last).to_be_in_viewport(ratio=1)
    assert tool.locator("[data-step]").input_value() == "0"
    for _ in range(20):
        page.keyboard.press("Shift+ArrowLeft")
    assert stage.evaluate("e => e.scrollLeft") == 0


@pytest.mark.parametrize("name", ["forward", "back"])
def test_a_step_at_an_end_keeps_the_focus(page: Page, name: str):
    button = page.locator(f"#visualiser [data-{name}]")
    button.focus()
    for _ in range(30):
        page.keyboard.press("Enter")
    expect(button).to_be_focused()
    expect(button).to_have_attribute("aria-disabled", "true")
    assert (
        page.locator("#visualiser [data-phase]").inner_text()
        == {"forward": "done", "back": "start"}[name]
    )


def test_it_runs_pauses_and_goes_back(page: Page):
    # Its time passes when told to: of a busy machine's, the whole run may lie between two lines.
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    tool = page.locator("#visualiser")
    tool.locator("[data-speed]").fill("10")
    tool.locator("[data-run]").click()
    assert tool.locator("[data-run]").inner_text() == "Pause"
    page.clock.run_for(250)
    assert re.match("step [2-9] of", tool.locator("[data-counter]").inner_text())
    tool.locator("[data-run]").click()
    assert tool.locator("[data-run]").inner_text() == "Run"
    stopped = int(tool.locator("[data-step]").input_value())
    page.clock.run_for(2000)
    assert int(tool.locator("[data-step]").input_value()) == stopped
    tool.locator("[data-back]").click()
    assert int(tool.locator("[data-step]").input_value()) == stopped - 1
    tool.locator("[data-reset]").click()
    assert tool.locator("[data-phase]").inner_text() == "start"
    tool.locator("[data-run]").click()
    page.clock.run_for(60_000)
    assert tool.locator("[data-phase]").inner_text() == "done"
    assert tool.locator("[data-run]").inner_text() == "Run"


def test_keys_step_and_run(page: Page):
    tool = page.locator("#visualiser")
    stage = tool.locator("[data-stage]")
    stage.focus()
    for key, at in [("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0)]:
        page.keyboard.press(key)
        assert int(tool.locator("[data-step]").input_value()) == at
    page.keyboard.press("ArrowRight")
    assert "columns 0 to 3" in tool.locator("[data-range]").inner_text()
    assert stage.locator("td.now").count() == 4
    page.keyboard.press(" ")
    assert tool.locator("[data-run]").inner_text() == "Pause"


def test_rows_and_columns_give_a_new_input(page: Page):
    tool = page.locator("#visualiser")
    tool.locator("[data-rows]").select_option("4")
    tool.locator("[data-cols]").select_option("16")
    grid = cells(tool, "input")
    assert [len(row) for row in grid] == [17] * 4
    tool.locator("[data-random]").click()
    assert cells(tool, "input") != grid
