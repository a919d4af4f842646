"""The page, built once a run, and a Chromium that opens it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from paper.blog.build import page as built
from tests.blog.source import inputs, make
from tests.shared import once
from workflow import machine


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the page is built from."""
    return once(tmp_path_factory, "blog-source", make)


@pytest.fixture
def mine(source: Path, tmp_path: Path) -> Path:
    """A copy of the source that a test may spoil."""
    return Path(shutil.copytree(source, tmp_path / "source"))


@pytest.fixture(scope="session")
def html(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page: of made-up measurements, or the one that PAGE names."""
    if named := os.environ.get("PAGE"):
        return Path(named).resolve()

    def build(folder: Path) -> None:
        (folder / "blog.html").write_text(built(inputs(source)))

    return once(tmp_path_factory, "blog-page", build) / "blog.html"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = machine.browser()
    if not found:
        # No skip: a page that no browser has opened is not tested.
        named = os.environ.get("CHROMIUM", ", ".join(machine.BROWSERS))
        pytest.fail(
            f"no browser: {named} not found; apt-get install chromium, or name one in CHROMIUM",
            pytrace=False,
        )
    with sync_playwright() as playwright:
        # Its sandbox refuses root, as CI runs it; the page is our own file.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, html: Path) -> Iterator[Page]:
    """The page as a desktop shows it; an error in its console fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda m: errors.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(html.as_uri())
    yield page
    context.close()
    assert errors == []
