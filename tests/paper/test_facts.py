"""A fact is a number of a table, by name; what is not there is named and stops the build."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from paper.facts import BadFact, found, read_facts
from tests.commands import ROOT, module

SPEEDS = pd.DataFrame({
    "variant": ["a", "a", "b", "b"], "cols": [32, 1024, 32, 1024],
    "fraction_of_copy": [0.9876, 1.0123, 0.5, None], "fraction_low": [0.98, 1.0, 0.4, None],
    "fraction_high": [0.99, 1.1, 0.6, None], "median_us": [12.3456, 1234.5, 0.01234, None],
    "stale": [False, False, True, True],
})  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tidy").mkdir()
    SPEEDS.to_csv(tmp_path / "tidy" / "speeds.csv", index=False)
    (tmp_path / "hardware.json").write_text(json.dumps({"gpu": "NVIDIA H200", "sm": 132}))
    return tmp_path


def fact(folder: Path, **asked: Any) -> dict[str, Any]:
    wanted = {"table": "tidy/speeds.csv", **asked}
    return found({"it": wanted}, folder)["it"]


def test_one_row_gives_its_value_and_its_interval(folder: Path):
    where = {"variant": "a", "cols": 32}
    got = fact(folder, where=where, column="fraction_of_copy", take="only", **{"as": "ratio"})
    assert got == {"text": "0.988", "value": 0.9876, "low": 0.98, "high": 0.99, "stale": False}


@pytest.mark.parametrize(
    ("where", "take", "style", "text", "stale"),
    [
        ({"variant": ["a", "b"]}, "min", "percent", "50.0%", True),
        ({"variant": "a"}, "max", "ratio", "1.01", False),
        ({"cols": {"from": 33, "to": 2000}}, "max", "ratio", "1.01", False),
        ({"cols": {"to": 32}, "variant": "a"}, "only", "ratio", "0.988", False),
        ({}, "median", "ratio", "0.988", True),
    ],
)
def test_of_several_rows_one_is_taken(
    folder: Path, where: dict[str, Any], take: str, style: str, text: str, stale: bool
):
    got = fact(folder, where=where, column="fraction_of_copy", take=take, **{"as": style})
    assert (got["text"], got["stale"]) == (text, stale)


@pytest.mark.parametrize(
    ("cols", "variant", "text"),
    [(32, "a", "12.3 µs"), (1024, "a", "1,234 µs"), (32, "b", "0.0123 µs")],
)
def test_times_have_three_digits_or_all_before_the_point(
    folder: Path, cols: int, variant: str, text: str
):
    where = {"variant": variant, "cols": cols}
    assert (
        fact(folder, where=where, column="median_us", take="only", **{"as": "us"})["text"] == text
    )


def test_rows_are_counted_and_keys_are_read(folder: Path):
    assert fact(folder, where={"variant": "b"}, take="count", **{"as": "int"})["text"] == "2"
    assert fact(folder, table="hardware.json", key="gpu", **{"as": "text"})["text"] == "NVIDIA H200"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"where": {"variant": "c"}}, "it: no row of .*speeds.csv has variant c"),
        ({"where": {"variant": ["a", "c"]}}, "has variant c"),
        ({"where": {"varant": "a"}}, "no column 'varant'; it has variant, cols"),
        ({"where": {"variant": "a"}}, "2 rows of .* have variant a, not one"),
        ({"where": {"variant": "b", "cols": 1024}}, "cols 1024 and a fraction_of_copy"),
        ({"where": {}, "column": "speed"}, "no column 'speed'"),
        ({"table": "tidy/none.csv", "where": {}}, "none.csv is missing"),
    ],
)
def test_what_is_not_there_is_named(folder: Path, asked: dict[str, Any], said: str):
    with pytest.raises(BadFact, match=said):
        fact(folder, **{"column": "fraction_of_copy", "take": "only", "as": "ratio", **asked})


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        (["Name: {table: a.csv, as: int, where: {}, take: count}"], "Name"),
        (["x: {table: a.csv, as: int}"], "x: .* is not valid"),
        (["x: {table: a.csv, as: size, where: {}, take: count}"], "'size' is not one of"),
        (["x: {table: a.csv, as: int, where: {}, take: count}"] * 2, "x: another list has"),
        (["x: ["], "cannot be read"),
    ],
)
def test_a_list_that_is_none_is_refused(tmp_path: Path, lists: list[str], said: str):
    paths = []
    for number, text in enumerate(lists):
        paths.append(tmp_path / f"{number}.yaml")
        paths[-1].write_text(text)
    with pytest.raises(BadFact, match=said):
        read_facts(paths)


def test_the_command_writes_all_or_says_what_is_missing(folder: Path, tmp_path: Path):
    asked = {"x": {"table": "tidy/speeds.csv", "where": {"variant": "b"}, "take": "count"}}
    asked["x"]["as"] = "int"
    wanted, out = tmp_path / "facts.yaml", tmp_path / "made" / "facts.json"
    wanted.write_text(yaml.safe_dump(asked))
    done = module("paper.facts", "--folder", folder, "--out", out, wanted)
    assert done.returncode == 0
    assert done.stdout == f"1 facts, 0 of them measured with earlier code, in {out}\n"
    assert json.loads(out.read_text())["x"]["value"] == 2
    asked["x"]["where"] = {"variant": "c"}
    wanted.write_text(yaml.safe_dump(asked))
    out.unlink()
    done = module("paper.facts", "--folder", folder, "--out", out, wanted)
    assert done.returncode == 2
    assert done.stdout.startswith("x: no row of ")
    assert done.stdout.count("\n") == 1
    assert not out.exists()


def test_the_lists_of_paper_and_blog_are_lists():
    assert read_facts(sorted((ROOT / "paper").rglob("facts.yaml")))
