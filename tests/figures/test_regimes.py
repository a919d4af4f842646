"""The map of regimes shows what is selected, cell by cell."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from figures import regimes
from kernels.frontier.plans import ALIKE, REGIMES
from tests.commands import module
from tests.figures.test_page import SUFFIXES


@pytest.mark.parametrize(("dtype", "edges"), regimes.PANELS.values())
def test_every_cell_has_the_colour_of_its_regime(dtype: str, edges: int):
    table = regimes.chosen(dtype, edges)
    assert len(table) == len(regimes.ROWS) * len(regimes.WIDTHS)
    assert ("tile" in set(table["regime"])) == (edges == ALIKE)
    ax = Figure().subplots()
    regimes.draw(ax, table)
    (mesh,) = (c for c in ax.collections if isinstance(c, QuadMesh))
    numbers = np.asarray(mesh.get_array()).reshape(len(regimes.ROWS), -1)
    by_place = table.set_index(["rows", "cols"])["regime"]
    widths = sorted(set(table["cols"]))
    for i, rows in enumerate(regimes.ROWS):
        drawn = [REGIMES[int(n)] for n in numbers[i]]
        assert drawn == [by_place[rows, cols] for cols in widths]
    labels = {str(line.get_label()) for line in ax.lines}
    assert labels == set(table["regime"])


def test_the_stamp_says_when_and_of_which_code_the_table_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(regimes, "TABLES", tmp_path)
    for commit, said in (
        ("a" * 40, "code aaaaaaa, ccccccc"),
        ("b" * 40 + "-dirty", "code bbbbbbb (with a table being written), ccccccc"),
        ("c" * 40 + "-dirty", "code ccccccc (in part with a table being written)"),
    ):
        entries = [{"code_commit": "c" * 40}, {}, {"code_commit": commit}]
        told = {
            "gpu": "NVIDIA H200", "measured_utc": "2026-11-21T21:08:51Z", "code_commit": commit,
            "entries": entries,
        }  # fmt: skip
        (tmp_path / "nvidia-h200.json").write_text(json.dumps(told))
        assert regimes.stamp().endswith(said)
        assert "NVIDIA H200 · table measured 2026-11-21" in regimes.stamp()


def test_a_commit_with_changes_and_without_is_named_once():
    code = regimes.stamp().rpartition(" · code ")[2].split(", ")
    commits = [each.split(" ")[0] for each in code]
    assert len(commits) == len(set(commits)) > 1
    assert [each for each in code if " " in each] == [
        "e6921d7 (in part with a table being written)"
    ]


def test_the_same_bytes_twice(tmp_path: Path):
    stems = [tmp_path / name / "regimes" for name in ("one", "two")]
    for stem in stems:
        done = module("figures.regimes", "--stem", stem)
        assert done.returncode == 0, done.stdout
    for suffix in SUFFIXES:
        first, second = (stem.with_name(f"regimes.{suffix}").read_bytes() for stem in stems)
        assert first == second, suffix
