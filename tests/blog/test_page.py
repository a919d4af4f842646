"""The page in a browser: nothing from elsewhere, no error, readable without scripts, accessible."""

import itertools
import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page

WIDTHS = {"phone": (390, 844), "desktop": (1280, 900)}


def test_it_asks_for_nothing_but_itself(browser: Browser, html: Path):
    with browser.new_context() as context:
        page, asked, errors = context.new_page(), [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(html.as_uri())
        page.wait_for_load_state("networkidle")
    assert [url for url in asked if not url.startswith("data:")] == [html.as_uri()]
    assert errors == []


def test_it_could_not_call_anyone(browser: Browser, html: Path):
    # Not the fixture's page: what the policy refuses is an error of the console.
    with browser.new_context() as context:
        page, refused = context.new_page(), []
        page.on("console", lambda message: refused.append(message.text))
        page.goto(html.as_uri())
        went = page.evaluate("fetch('https://example.org').then(() => true, () => false)")
    assert not went
    assert any("Content Security Policy" in text for text in refused)


def test_no_address_outside_is_loaded(html: Path):
    # A reader may follow a link to a publication; the page itself asks for nothing.
    text = re.sub(r'<a href="https://[^"]*">', "<a>", html.read_text())
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)
    assert not re.search(r"url\((?!#)|@import", text)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_serious(browser: Browser, html: Path, width: str, scheme: str):
    size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
    with browser.new_context(viewport=size, color_scheme=scheme) as context:  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(html.as_uri())
        # Of the explorer's rows a few are as good as all, and a second faster.
        page.locator("[data-none]").click()
        page.locator("[data-variants] input").nth(1).check()
        page.locator("details").evaluate_all("all => all.forEach(d => (d.open = true))")
        # Axe does not judge letters on a gradient: without shadows it does, in tables too.
        page.add_style_tag(content="* { background-image: none !important; }")
        found = Axe().run(page).response["violations"]
        bad = [v for v in found if v["impact"] in ("serious", "critical")]
        assert [f"{v['id']}: {v['nodes'][0]['html'][:120]}" for v in bad] == []
        # Nothing but what scrolls by itself is wider than the screen.
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_it_reads_without_scripts(browser: Browser, html: Path):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(html.as_uri())
        for tool in ("overflow", "visualiser", "explorer"):
            assert page.locator(f"#{tool} .still p").first.is_visible()
            assert page.locator(f"#{tool} .still td").first.is_visible()
            assert not page.locator(f"#{tool} .live").is_visible()
        assert page.locator("figure svg").count() > 5
        assert page.locator("section h2").count() > 15


def test_every_link_inside_leads_somewhere(page: Page):
    dead = page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href').slice(1))"
        ".filter(id => !document.getElementById(id))"
    )
    assert dead == []


def test_ids_are_unique(page: Page):
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_headings_go_down_one_level_at_a_time(page: Page):
    levels = page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))"
    )
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_the_loop_stands_still_where_less_motion_is_asked_for(browser: Browser, html: Path):
    with browser.new_context(reduced_motion="reduce") as context:
        page = context.new_page()
        page.goto(html.as_uri())
        running = "document.getAnimations().filter(a => a.playState === 'running').length"
        assert page.evaluate(running) == 0
        last = page.locator("#loop .o3").evaluate("e => getComputedStyle(e).opacity")
        assert last == "1"


def test_the_loop_can_be_stopped(page: Page):
    running = "document.getAnimations().filter(a => a.playState === 'running').length"
    assert page.evaluate(running) > 0
    page.locator("#loop-stop").check()
    assert page.evaluate(running) == 0


@pytest.mark.parametrize(("dtype", "least"), [("float32", 86), ("float16", 9)])
def test_the_demonstration_overflows_and_does_not(page: Page, dtype: str, least: int):
    tool = page.locator("#overflow")
    tool.locator("[data-dtype]").select_option(dtype)
    for shift in (least - 1, least):
        tool.locator("[data-shift]").fill(str(shift))
        plain, safe = tool.locator("[data-body] tr").all_inner_texts()
        # Of inputs up to shift + 3 the largest exponential overflows first.
        assert ("NaN" in plain) == (shift == least)
        assert safe.split("\t")[-1] == "0.090, 0.245, 0.665"


def test_a_wrong_result_that_is_finite_is_marked(page: Page):
    tool = page.locator("#overflow")
    tool.locator("[data-dtype]").select_option("float16")
    fates = {7: "right", 8: "silent", 9: "nan"}
    for shift, fate in fates.items():
        tool.locator("[data-shift]").fill(str(shift))
        plain, safe = (row.locator("td").last for row in tool.locator("[data-body] tr").all())
        assert ("bad" in (plain.get_attribute("class") or "")) == (fate != "right")
        assert "bad" not in (safe.get_attribute("class") or "")
        assert (plain.inner_text() == "0.000, 0.000, 0.000") == (fate == "silent")
        said = tool.locator("[data-fate]:visible")
        assert said.count() == 1
        assert said.get_attribute("data-fate") == fate


def bubble(fact: Locator) -> str:
    """What the page shows beside ``fact``."""
    return fact.evaluate("e => getComputedStyle(e, '::after').content")


def test_an_interval_is_shown_to_pointer_keyboard_and_touch(browser: Browser, html: Path):
    size = dict(zip(("width", "height"), WIDTHS["phone"], strict=True))
    for scripts in (True, False):
        with browser.new_context(
            viewport=size,  # type: ignore[arg-type]
            has_touch=True,
            java_script_enabled=scripts,
        ) as context:
            page = context.new_page()
            page.goto(html.as_uri())
            first, second, third = (page.locator(".fact[tabindex]").nth(n) for n in range(3))
            assert bubble(first) == "none"
            first.focus()
            assert re.search(r"interval: [\d.]+ to [\d.]+", bubble(first))
            while not second.evaluate("e => e === document.activeElement"):
                page.keyboard.press("Tab")
            assert "interval" in bubble(second)
            assert bubble(first) == "none"
            first.hover()
            assert "interval" in bubble(first)
            third.tap()
            assert "interval" in bubble(third)


def test_escape_puts_an_interval_away_until_one_is_pointed_at(page: Page):
    first, second = (page.locator(".fact[tabindex]").nth(n) for n in range(2))
    for point in (first.hover, first.focus):
        point()
        assert "interval" in bubble(first)
        page.keyboard.press("Escape")
        assert bubble(first) == "none"
        second.focus()
        assert "interval" in bubble(second)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_interval_makes_the_page_wider(page: Page, width: str):
    size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
    page.set_viewport_size(size)  # type: ignore[arg-type]
    for fact in page.locator(".fact[tabindex]").all():
        fact.focus()
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
