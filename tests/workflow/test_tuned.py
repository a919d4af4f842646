"""What docs/operators.md tells of tuning: fractions, and where no claim looks."""

import json
from pathlib import Path

import pytest

from kernels.frontier.backward_plans import FOLDER
from kernels.frontier.operators import KINDS
from kernels.frontier.select import DEFAULT
from kernels.registry import DTYPES
from workflow.tuned import WIDTHS, reached, runs, wide_gradients, wide_masks

WIDEST = 2**19  # of float32


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Everything is at 0.6 of copy; gradients are at 0.97 of a sum, the widest at 0.5 and 0.75."""
    for number, kind in enumerate((*KINDS, FOLDER)):
        of = "add" if kind == FOLDER else "copy"
        entries = [
            {"dtype": dtype, "cols": cols, f"fraction_of_{of}": fraction(kind, cols)}
            for dtype in DTYPES
            for cols in WIDTHS
            if dtype != "float32" or cols <= WIDEST
        ]
        (tmp_path / kind).mkdir()
        told = {"code_commit": str(number) * 40, "entries": entries}
        (tmp_path / kind / f"{DEFAULT}.json").write_text(json.dumps(told))
    return tmp_path


def fraction(kind: str, cols: int) -> float:
    if kind != FOLDER:
        return 0.6
    return {2**19: 0.75, 2**20: 0.5}.get(cols, 0.97)


def cells(table: str) -> dict[str, list[str]]:
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()[2:]]
    return {row[0]: row[1:] for row in rows}


def test_masks_are_told_by_their_bytes_too(tables: Path):
    rows = cells(reached(tables))
    assert len(rows) == 2 * len(KINDS)
    assert set(rows["bfloat16, factors"]) == set(rows["bfloat16, logarithm"]) == {"0.600"}
    assert set(rows["bfloat16, boolean"]) == {"0.600 (0.75)"}
    assert set(rows["bfloat16, additive"]) == {"0.600 (0.90)"}
    assert set(rows["bfloat16, causal"]) == {"0.600 (0.45)"}
    assert set(rows["float32, boolean"][:-1]) == {"0.600 (0.67)"}
    assert rows["float32, boolean"][-1] == "–"


def test_every_run_is_named(tables: Path):
    assert runs(tables).startswith("logarithm 0000000, factors 1111111, causal 2222222")


def test_wide_masks_are_those_beyond_the_claims_places(tables: Path):
    first = "additive: float32 0.90 from 32,768 on, float16 0.90 from 32,768 on, bfloat16 0.90"
    assert wide_masks(tables).startswith(first)


def test_wide_gradients_are_those_from_which_on_all_are_short(tables: Path):
    assert wide_gradients(tables) == (
        "float32 0.75 from 524,288 on, float16 0.50 to 0.75 from 524,288 on, "
        "bfloat16 0.50 to 0.75 from 524,288 on"
    )


def test_nothing_is_told_where_all_is_reached(tables: Path):
    path = tables / FOLDER / f"{DEFAULT}.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "entries": told["entries"][:1]}))
    assert wide_gradients(tables) == ""
