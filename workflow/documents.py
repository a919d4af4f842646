"""Write the generated parts of README.md, ARTIFACT.md and three of docs/ anew: `make docs`.

    python -m workflow.documents

A part stands between two comments, which stay: <!-- begin minutes --> ... <!-- end minutes -->.
"""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from workflow.machine import ROOT

DOCUMENTS = (
    "README.md", "ARTIFACT.md", "docs/attention.md", "docs/frontier.md", "docs/operators.md",
)  # fmt: skip
MARKED = re.compile(r"(<!-- begin ([\w ]+) -->)(.*?)(<!-- end \2 -->)", re.DOTALL)
MARKER = re.compile(r"<!-- (?:begin|end) [\w ]+ -->")


class BadDocument(ValueError):
    """A document's markers cannot be followed; the message names the marker."""


def filled(text: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """``text`` with every marked part as ``blocks`` makes it.  Raises BadDocument.

    A part that begins a line anew is set off by line breaks; one within a line is not.
    """
    if odd := MARKER.search(MARKED.sub("", text)):
        raise BadDocument(f"'{odd[0]}' has no other half, or lies in another part")

    def fill(found: re.Match[str]) -> str:
        begin, name, old, end = found.groups()
        if name not in blocks:
            raise BadDocument(f"unknown part '{name}'; known: {', '.join(blocks)}")
        new = blocks[name]()
        return f"{begin}\n{new}\n{end}" if old.startswith("\n") else f"{begin}{new}{end}"

    return MARKED.sub(fill, text)


def parts(text: str) -> list[str]:
    """The names of the marked parts of ``text``."""
    return [found[2] for found in MARKED.finditer(text)]


def refill(path: Path, blocks: Mapping[str, Callable[[], str]]) -> bool:
    """Write ``path`` anew where it is out of date, and say whether it was."""
    old = path.read_text()
    try:
        new = filled(old, blocks)
    except BadDocument as error:
        raise BadDocument(f"{path}: {error}") from error
    if new != old:
        path.write_text(new)
    return new != old


def main() -> int:
    """Refill every document."""
    # Not above: the tables need the environment, the markers do not.
    from experiments.tables import BadTable
    from workflow.artifact import BLOCKS, BadVerdicts
    from workflow.graph import BadGraph

    try:
        for name in DOCUMENTS:
            print(f"{name}: {'written anew' if refill(ROOT / name, BLOCKS) else 'up to date'}")
    except (BadDocument, BadGraph, BadTable, BadVerdicts) as error:
        print(error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
