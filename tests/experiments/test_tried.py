"""What tuning tried is kept beside its table, and told of where a goal is not met."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer

from experiments import attempts, tried
from experiments.outcomes import GOALS
from experiments.tune_joined import NOISE
from kernels.frontier.plans import ALIKE, APART, NONE, Shape
from kernels.frontier.select import DEFAULT, TABLES, shape_of
from kernels.registry import ROOT

HARDWARE = ROOT.parent / "experiments" / "archive" / DEFAULT / "hardware.json"
H200 = attempts.On(DEFAULT, 90, 132)
SHIPPED = tried.read(tried.beside(TABLES / f"{DEFAULT}.json"))


def entry(rows: int | None, cols: int, fraction: float, **more: Any) -> dict[str, Any]:
    return {
        "dtype": "float32", "edges": "none", "rows": rows, "cols": cols, "regime": "block",
        "sizes": [128, 1], "raw": False, "fraction_of_copy": fraction, **more,
    }  # fmt: skip


def test_points_that_are_measured_again_leave_their_earlier_rows(tmp_path: Path):
    path = tried.beside(tmp_path / "some" / "gpu.json")
    assert path.name == "gpu.tried.csv.gz"
    assert tried.read(path).empty
    tried.keep(path, [entry(None, 64, 0.9), entry(None, 64, 0.8), entry(8, 64, 0.7)], "a" * 40)
    tried.keep(path, [entry(None, 64, 0.95, early=False), entry(None, 128, 1.0)], "b" * 40)
    table = tried.read(path)
    assert table["fraction_of_copy"].tolist() == [0.7, 0.95, 1.0]
    assert table["code_commit"].str[0].tolist() == ["a", "b", "b"]
    assert table["rows"].isna().tolist() == [False, True, True]
    shapes = [shape_of(row) for row in table.to_dict("records")]
    assert shapes == [Shape("block", (128, 1)), Shape("block", (128, 1), early=False),
                      Shape("block", (128, 1))]  # fmt: skip
    before = path.read_bytes()
    tried.keep(path, [], "c" * 40)
    assert path.read_bytes() == before  # nothing is lost, and equal tables are equal bytes


def test_a_place_goes_by_the_next_point_that_was_tried(tmp_path: Path):
    points = [(None, 64), (None, 1024), (256, 1024), (256, 4096), (8, 4096)]
    told = [entry(rows, cols, 0.5 + i / 10) for i, (rows, cols) in enumerate(points)]
    told += [entry(None, 1024, 0.99), entry(None, 1025, 0.4, edges="edges")]
    table = tried.keep(tmp_path / "gpu.tried.csv.gz", told, "a" * 40)

    def fractions(edges: int, rows: int, cols: int) -> list[float]:
        return tried.at(table, "float32", edges, rows, cols)["fraction_of_copy"].tolist()

    assert fractions(NONE, 10**6, 65) == [0.99, 0.6]
    assert fractions(NONE, 200, 1000) == [0.7]
    assert fractions(NONE, 8, 2049) == [0.9]
    assert fractions(NONE, 8, 2048) == [0.8]  # the few rows are no measure of such narrow ones
    assert fractions(NONE, 10**6, 1025) == []
    assert fractions(ALIKE, 10**6, 77) == [0.4]
    assert fractions(APART, 64, 77) == [0.4]
    assert fractions(APART, 10**6, 77) == []


def test_the_shipped_tables_entries_are_the_fastest_of_what_was_tried():
    entries = json.loads((TABLES / f"{DEFAULT}.json").read_text())["entries"]
    kinds = {"none": NONE, "edges": ALIKE, "edges apart": APART}
    compared = 0
    for one in entries:
        rows = one["rows"] or 10**9
        found = tried.at(SHIPPED, one["dtype"], kinds[one["edges"]], rows, one["cols"])
        mine = found[(found["cols"] == one["cols"])]
        mine = mine[mine["rows"].isna() if one["rows"] is None else mine["rows"] == one["rows"]]
        if len(mine):
            compared += 1
            if one.get("kept"):  # as fast but for noise (tune_joined.py)
                assert one["fraction_of_copy"] >= (1 - NOISE) * mine.iloc[0]["fraction_of_copy"]
                continue
            assert shape_of(mine.iloc[0].to_dict()) == shape_of(one)
            assert mine.iloc[0]["fraction_of_copy"] == one["fraction_of_copy"]
    assert compared > 400


def goal(**more: Any) -> dict[str, Any]:
    return {
        "source": "s", "claim": "G1.1", "goal": 1, "statement": "fraction", "measured": "frontier",
        "place": "",
        "dtype": "bfloat16", "rows": 512, "cols": 2**19, "value": 0.9, "low": 0.9, "high": 0.9,
        "noise": 0.0, "least": 0.97, "most": float("inf"), "outcome": "missed", "note": "", **more,
    }  # fmt: skip


def test_the_three_fastest_are_told_of_places_that_miss_a_goal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    told = attempts.told(
        pd.DataFrame([
            goal(), goal(), goal(outcome="met", cols=2**18), goal(goal=5, cols=2**17),
            goal(dtype="float32", rows=8, cols=2**24, outcome="open"),
            goal(place="sliced input", cols=131_072, rows=2048),
            goal(place="sliced input", cols=2**20, rows=128, dtype="float32"),
            goal(place="sliced input", cols=2**20, rows=8),
        ]), SHIPPED, H200,
    )  # fmt: skip
    lines = [line for line in told.splitlines() if line.startswith(("| bfloat16", "| float32"))]
    assert len(lines) == 5
    first = "| bfloat16 512 x 524,288 | 0.900: fraction | staged 512x16x3 | many x 524,288, "
    assert lines[0].startswith(first)
    assert lines[0].split(" | ")[4].count("; ") == 2
    assert "in no run that is kept | – | –" in lines[1]
    assert "sliced input" in lines[2]
    assert "edges apart" in lines[2]
    assert " | chunks 2048x6x8x16x1x2x2 edges apart | " in lines[3]
    assert not any("**" in line for line in lines[:4])
    # Few slices go by few rows that lie alike.
    assert " | **grid 256x49x3 held=11 raw edges apart** | " in lines[4]
    # The page is a part of the goals', of this very table.
    path = tmp_path / "goals.csv"
    pd.DataFrame([goal()])[list(GOALS.columns)].to_csv(path, index=False)
    attempts.main(path, DEFAULT, HARDWARE)
    assert " | staged 512x16x3 | " in capsys.readouterr().out
    assert attempts.On.of(DEFAULT, HARDWARE) == H200


def test_the_three_fastest_in_triton_are_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    shapes = [
        (2**17, "grid", [8, 16, 2], True, 0.91), (2**18, "grid", [12, 16, 1], True, 0.87),
        (2**18, "online", [], False, 0.6), (2**18, "grid", [16, 8, 2], False, 0.88),
        (2**20, "grid", [8, 8, 4], True, 0.5),
    ]  # fmt: skip
    point = {"dtype": "bfloat16", "edges": "none", "rows": None}
    names = ("cols", "regime", "sizes", "raw", "fraction_of_copy")
    told_of = [{**point, **dict(zip(names, shape, strict=True))} for shape in shapes]
    table = tried.keep(tried.beside(tmp_path / f"{DEFAULT}.json"), told_of, "c" * 40)
    path = tmp_path / "goals.csv"
    pd.DataFrame([
        goal(), goal(goal=5, cols=151_936), goal(goal=5, cols=2**20, outcome="open"),
        goal(goal=5, cols=2**16, outcome="met"), goal(goal=5, cols=100_003),
    ])[list(GOALS.columns)].to_csv(path, index=False)  # fmt: skip
    monkeypatch.setattr(attempts.triton, "TABLES", tmp_path)
    attempts.main(path, DEFAULT, HARDWARE)
    told = capsys.readouterr().out.split("| where, in Triton |")[1].splitlines()[2:]
    best = "grid 16x8x2 0.880; grid 12x16x1 raw 0.870; online 0.600"
    assert told == [
        f"| bfloat16 512 x 151,936 | 0.900: fraction | many x 262,144, ccccccc | {best} |",
        "| bfloat16 512 x 1,048,576 | 0.900: fraction | many x 1,048,576, ccccccc "
        "| grid 8x8x4 raw 0.500 |",
        "| bfloat16 512 x 100,003 | 0.900: fraction | in no run that is kept | – |",
    ]
    assert attempts.told_of_triton(pd.DataFrame([goal()]), table) == ""


def test_without_a_table_nothing_is_told_and_no_outcomes_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "goals.csv"
    pd.DataFrame([goal()])[list(GOALS.columns)].to_csv(path, index=False)
    attempts.main(path, "no-such-gpu", HARDWARE)
    assert capsys.readouterr().out == ""
    path.write_text("a,b\n1,2\n")
    with pytest.raises(typer.Exit):
        attempts.main(path, DEFAULT, HARDWARE)
    assert "holds no outcomes" in capsys.readouterr().out
