"""The post: Markdown files with expressions, to sections of HTML.

A number in a sentence is an expression: ``fact("name")`` was measured, ``given(4)`` holds by
definition or belongs to the example.  A digit that is neither fails tests/blog/test_numbers.py.
"""

import html
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markdown_it import MarkdownIt

from paper.blog import animation, demos, example, explorer, tables
from paper.blog.contents import HERE, files
from paper.blog.inputs import BadPage, Inputs
from paper.blog.svg import escaped, inlined

EARLIER = "measured with earlier code"
HEADING = re.compile(r"<h([23])>(.*?)</h\1>", re.DOTALL)
# A table of sentences has this comment before it: on a narrow screen its rows are cards.
STACKED = "<!-- stacked -->"
TABLE = re.compile(rf"({STACKED}\s*)?(<table>.*?</table>)", re.DOTALL)
ROLES = {
    "table": "table", "thead": "rowgroup", "tbody": "rowgroup", "tr": "row", "th": "columnheader",
}  # fmt: skip
TAG = re.compile(r"<[^>]+>")


@dataclass(frozen=True)
class Section:
    """A section of the page, and how the table of contents names it."""

    anchor: str
    title: str
    body: str


class Post:
    """The post as ``inputs`` tell it."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self._parts: list[str] = []
        self._figures = 0
        self._markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(HERE),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(self._names())

    def sections(self) -> list[Section]:
        """Every section of the page.  Raises BadPage."""
        return [self._section(path) for path in files()]

    def _section(self, path: Path) -> Section:
        try:
            text = self._environment.from_string(path.read_text()).render()
        except jinja2.TemplateError as error:
            raise BadPage(f"{path.name}: {error.message or error}") from error
        body = TABLE.sub(_scrolling, HEADING.sub(_anchored, self._markdown.render(text)))
        # Long lines of code scroll, by keyboard too.
        body = body.replace("<pre>", '<pre tabindex="0" role="group" aria-label="Code">')
        # Parts stand outside Markdown: it would end an SVG at its first blank line.
        body = re.sub(r"(?:<p>)?@part(\d+)@(?:</p>)?", lambda m: self._parts[int(m[1])], body)
        heading = re.search(r'<h2 id="([^"]*)">(.*?)</h2>', body)
        if not heading:
            raise BadPage(f"{path.name} has no heading")
        return Section(heading[1], TAG.sub("", heading[2]), body)

    def _names(self) -> dict[str, object]:
        """What an expression of the post may call."""
        i = self.inputs
        return {
            "fact": self._fact,
            "given": str,
            "figure": self._figure,
            "gpu": i.hardware()["gpu"],
            "example": example.rows(),
            "block": example.BLOCK,
            "ladder": lambda: tables.ladder(i),
            "ladder_rows": tables.LADDER_ROWS,
            "ladder_cols": tables.LADDER_COLS,
            "profiler": lambda: tables.profiler(i),
            "profiled": tables.PROFILED,
            "counted": lambda variant, **at: tables.counted(i, variant, **at),
            "verdict": lambda name: tables.claim(i, name)["verdict"],
            "verdicts": lambda name: tables.verdicts(i, name),
            "errata": tables.errata,
            "erratum": _erratum,
            "cells": _cells,
            "animation": self._part(animation.figure),
            "overflow": self._part(lambda: self._template("overflow", cases=demos.overflow())),
            "visualiser": self._part(lambda: self._template("visualiser", rows=demos.trace())),
            "explorer": self._part(self._explorer),
        }

    # --- Numbers ------------------------------------------------------------------------------

    def _fact(self, name: str) -> str:
        """The text of a fact; pointing at it, a tap or the Tab key shows its interval."""
        fact = self.inputs.fact(name)
        text = html.escape(str(fact["text"]))
        # No button, though it can be focused: where pages are simplified, buttons are left out.
        interval = _interval(fact)
        shown = f' tabindex="0" aria-description="interval: {interval}"' if interval else ""
        dagger = ""
        if fact["stale"]:
            dagger = f'<a class="stale" href="#stale" aria-label="{EARLIER}">{tables.DAGGER}</a>'
        return f'<span class="fact" data-fact="{name}"{shown}>{text}</span>{dagger}'

    # --- Parts --------------------------------------------------------------------------------

    def _part(self, make: Callable[[], str]) -> Callable[[], str]:
        return lambda: self._placed(make())

    def _placed(self, part: str) -> str:
        self._parts.append(part)
        return f"@part{len(self._parts) - 1}@"

    def _template(self, name: str, **values: object) -> str:
        return self._environment.get_template(f"parts/{name}.html.j2").render(**values)

    def _explorer(self) -> str:
        data = explorer.data(self.inputs)
        return self._template("explorer", data=explorer.packed(data), rows=explorer.still(data))

    def _figure(self, name: str, alt: str, caller: Callable[[], str]) -> str:
        self._figures += 1
        svg = inlined(self.inputs.figure(name), name, alt)
        caption = self._markdown.renderInline(caller().strip())
        return self._placed(
            f'<figure id="figure-{name}"><div class="paper scroll" tabindex="0" role="group"'
            f' aria-label="Figure {self._figures}">{svg}</div>'
            f"<figcaption><b>Figure {self._figures}.</b> {caption}</figcaption></figure>"
        )


def _interval(fact: Mapping[str, Any]) -> str:
    """The ends of the interval, with the decimals and the unit of the fact; "" where they agree."""
    written = re.fullmatch(r"-?[\d,]+(?:\.(\d+))?(.*)", str(fact["text"]))
    if written is None or fact["low"] is None or fact["high"] is None:
        return ""
    decimals, unit = len(written[1] or ""), html.escape(written[2])
    times = 100 if unit == "%" else 1
    low, high = (f"{times * fact[end]:,.{decimals}f}" for end in ("low", "high"))
    return f"{low} to {high}{unit}" if low != high else ""


def _anchored(heading: re.Match[str]) -> str:
    """A heading that can be linked to."""
    slug = re.sub(r"[^a-z0-9]+", "-", TAG.sub("", html.unescape(heading[2])).lower()).strip("-")
    return f'<h{heading[1]} id="{slug}">{heading[2]}</h{heading[1]}>'


def _scrolling(table: re.Match[str]) -> str:
    """A table that scrolls by itself where the screen is narrow, by keyboard too."""
    heads = re.findall(r"<th[^>]*>(.*?)</th>", table[2])
    # Where a word may be parted on a narrow screen is nothing to read aloud.
    heads = [html.unescape(TAG.sub("", head)).replace("\u00ad", "") for head in heads]
    label = escaped("Table: " + ", ".join(heads))
    kind, body = (
        ("scroll stacked", _labelled(table[2], heads)) if table[1] else ("scroll", table[2])
    )
    return f'<div class="{kind}" tabindex="0" role="group" aria-label="{label}">{body}</div>'


def _labelled(table: str, heads: Sequence[str]) -> str:
    """``table`` whose cells bear their column's name, and whose parts say what they are.

    Drawn as cards, without a column above them, some browsers would no longer call it a table.
    """
    column = itertools.cycle(heads)
    table = re.sub("<td", lambda _: f'<td role="cell" data-label="{escaped(next(column))}"', table)
    for tag, role in ROLES.items():
        table = table.replace(f"<{tag}>", f'<{tag} role="{role}">')
    return table


def _cells(row: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _erratum(name: str) -> Sequence[str]:
    """The row of docs/errata.md called ``name``."""
    found = [row for row in tables.errata() if row[0] == name]
    if not found:
        raise BadPage(f"docs/errata.md has no {name}")
    return found[0]
