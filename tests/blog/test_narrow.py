"""What fits a screen shows all of it; what does not shows that there is more beyond its edge."""

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page

PHONES = (390, 360)
# What it lacks to show all of itself, in pixels.
CUT = "e => e.scrollWidth - e.clientWidth"


@pytest.fixture(params=PHONES)
def phone(browser: Browser, html: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    with browser.new_context(viewport={"width": request.param, "height": 800}) as context:
        page = context.new_page()
        page.goto(html.as_uri())
        page.locator("details").evaluate_all("all => all.forEach(d => (d.open = true))")
        yield page


def test_no_code_is_cut_on_a_desktop(page: Page):
    for code in page.locator("pre").all():
        assert code.evaluate(CUT) == 0, code.inner_text()


def test_tables_of_the_text_fit_a_phone(phone: Page):
    tables = phone.locator("section > .scroll:visible, details > .scroll:visible")
    assert tables.count() > 9
    for table in tables.all():
        assert table.evaluate(CUT) == 0, table.get_attribute("aria-label")


def test_tables_fit_a_phone_without_scripts(browser: Browser, html: Path):
    size = {"width": PHONES[-1], "height": 800}
    with browser.new_context(viewport=size, java_script_enabled=False) as context:  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(html.as_uri())
        for table in page.locator(".still .scroll").all():
            assert table.evaluate(CUT) == 0, table.get_attribute("aria-label")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_demonstration_fits_a_phone(phone: Page, dtype: str):
    tool = phone.locator("#overflow")
    tool.locator("[data-dtype]").select_option(dtype)
    for shift in range(0, 121, 5):
        tool.locator("[data-shift]").fill(str(shift))
        assert tool.locator(".live .scroll").evaluate(CUT) == 0, shift


@pytest.mark.parametrize("algorithm", ["online", "split"])
def test_the_first_input_of_the_visualiser_fits_a_phone(phone: Page, algorithm: str):
    tool = phone.locator("#visualiser")
    tool.locator("[data-algorithm]").select_option(algorithm)
    step = tool.locator("[data-step]")
    for at in range(int(step.get_attribute("max") or 0) + 1):
        step.fill(str(at))
        assert [part.evaluate(CUT) for part in tool.locator(".live .scroll").all()] == [0, 0]


def test_rows_of_sentences_are_cards_on_a_phone(phone: Page):
    tables = phone.locator(".stacked table")
    assert tables.count() == 3
    for table in tables.all():
        heads = table.locator("th").all_text_contents()
        cells = table.locator("tbody tr").first.locator("td").all()
        shown = [c.evaluate("e => getComputedStyle(e, '::before').content") for c in cells]
        assert shown == [f'"{head}: " / ""' for head in heads]
        boxes = [cell.bounding_box() or {} for cell in cells]
        # One under the other, each as wide as the card.
        assert len({box["x"] for box in boxes}) == len({box["width"] for box in boxes}) == 1
        assert boxes[0]["width"] > 0.8 * (phone.viewport_size or {})["width"]
        # Not every browser calls blocks a table: its parts say so themselves.
        parts = table.locator("xpath=..").locator("table, tr, th, td")
        assert all(parts.evaluate_all("all => all.map(e => e.hasAttribute('role'))"))
    # The names of the columns are out of sight only.
    seen = tables.first.aria_snapshot()
    assert 'columnheader "consequence"' in seen
    assert 'cell "E01"' in seen


def test_rows_of_sentences_are_rows_on_a_desktop(page: Page):
    cells = page.locator(".stacked table").first.locator("tbody tr").first.locator("td")
    tops = cells.evaluate_all("all => all.map(e => e.getBoundingClientRect().top)")
    assert len(tops) == 6
    assert len(set(tops)) == 1


def grounds(box: Locator) -> list[tuple[int, ...]]:
    """The most frequent colour at the left edge of ``box``, in its middle and at its right edge."""
    image = Image.open(io.BytesIO(box.screenshot())).convert("RGB")
    columns = (3, image.width // 2, image.width - 4)
    ys = range(image.height)
    return [
        Counter(image.getpixel((x, y)) for y in ys).most_common(1)[0][0]  # type: ignore[misc]
        for x in columns
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["figure .paper", "pre", "[data-stage]"])
def test_an_edge_with_more_beyond_it_has_a_shadow(
    browser: Browser, html: Path, scheme: str, name: str
):
    size = {"width": 390, "height": 800}
    with browser.new_context(viewport=size, color_scheme=scheme) as context:  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(html.as_uri())
        page.locator("[data-cols]").select_option("16")
        box = page.locator(name).first
        width = box.evaluate(CUT)
        assert width > 60
        for left, right in ((0, True), (width // 2, True), (width, False)):
            box.evaluate("(e, left) => (e.scrollLeft = left)", left)
            at_left, ground, at_right = grounds(box)
            # The names of the visualiser's rows stay at its left edge.
            assert (at_left != ground) == (left > 0) or name == "[data-stage]"
            assert (at_right != ground) == right
