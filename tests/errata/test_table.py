"""docs/errata.md and the tests of this folder are one to one."""

import ast
import re
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
KNOWN = {"S1", "S2", "S3", "S4", "S5", "QuACK 0.6.5"}
COLUMNS = ("id", "publication", "place", "wrong", "right", "consequence", "test")


def table() -> list[dict[str, str]]:
    """The rows of the errata, by column."""
    lines = (ROOT / "docs" / "errata.md").read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if re.match(r"\| E\d", line)]
    return [dict(zip(COLUMNS, row, strict=True)) for row in cells]


def written_in(path: Path) -> list[str]:
    """path::name of every test function of a file, from the root."""
    return [
        f"{path.relative_to(ROOT)}::{node.name}"
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def test_ids_are_numbered_without_gaps():
    rows = table()
    assert [row["id"] for row in rows] == [f"E{n:02}" for n in range(1, len(rows) + 1)]
    assert len(rows) > 1


def test_every_cell_says_something_and_publications_are_known():
    for row in table():
        assert all(row.values()), row["id"]
        assert set(row["publication"].split(", ")) <= KNOWN, row["id"]


def test_every_row_has_a_test_of_its_own_and_every_test_a_row():
    named = [row["test"].strip("`") for row in table()]
    written = [
        name
        for path in sorted(FOLDER.glob("test_*.py"))
        if path != Path(__file__)
        for name in written_in(path)
    ]
    assert sorted(named) == sorted(written)
