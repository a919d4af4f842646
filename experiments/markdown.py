"""Tables of Markdown, line by line."""

from collections.abc import Iterable
from typing import Any

STALE = "†"  # measured or counted with earlier code


def line(cells: Iterable[Any]) -> str:
    """A row; a bar within a cell is none of the table's."""
    return "| " + " | ".join(str(cell).replace("|", r"\|") for cell in cells) + " |"


def head(heads: list[str]) -> list[str]:
    """The first two rows."""
    return [line(heads), line(["---"] * len(heads))]
