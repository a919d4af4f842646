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


BAD = {
    "1 2\n3": "rows of 2 and 1 columns",
    "1 x": "'x' is no number",
    "1": "1 columns; expected 2 to 16",
    "1 2\n" * 5: "5 rows; expected 1 to 4",
    "": "0 rows; expected 1 to 4",
}


def test_bad_input_is_told_and_nothing_changes(page: Page):
    tool = opened(page)
    before = tool.locator("[data-input]").inner_text()
    for text, told in BAD.items():
        tool.locator("[data-typed]").fill(text)
        tool.locator("[data-take]").click()
        assert told in tool.locator("[data-error]").inner_text()
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


def test_it_runs_pauses_and_goes_back(page: Page):
    tool = page.locator("#visualiser")
    tool.locator("[data-speed]").fill("10")
    tool.locator("[data-run]").click()
    assert tool.locator("[data-run]").inner_text() == "Pause"
    expect(tool.locator("[data-counter]")).to_have_text(re.compile("step [2-9] of"))
    tool.locator("[data-run]").click()
    assert tool.locator("[data-run]").inner_text() == "Run"
    stopped = int(tool.locator("[data-step]").input_value())
    page.wait_for_timeout(200)
    assert int(tool.locator("[data-step]").input_value()) == stopped
    tool.locator("[data-back]").click()
    assert int(tool.locator("[data-step]").input_value()) == stopped - 1
    tool.locator("[data-reset]").click()
    assert tool.locator("[data-phase]").inner_text() == "start"
    tool.locator("[data-run]").click()
    expect(tool.locator("[data-phase]")).to_have_text("done")
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
