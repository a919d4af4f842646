"""A fact is a number of a table, by name; what is not there is named and stops the build."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from experiments.claim import read_claims
from experiments.goal import goals
from paper.facts import BadFact, found, read_facts
from tests.blog.source import claims
from tests.commands import ROOT, module
from tests.figures.conftest import resources_of, tidy_of
from tests.workflow.recorded import errors, waits

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
        ({"cols": 32, "variant": ["a", "b"]}, "min", "percent", "50.0%", True),
        ({"variant": "a"}, "max", "ratio", "1.01", False),
        ({"variant": "a", "cols": {"from": 32, "to": 1024}}, "max", "ratio", "1.01", False),
        ({"cols": {"to": 32}, "variant": "a"}, "only", "ratio", "0.988", False),
        ({"cols": 32}, "median", "ratio", "0.744", True),
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
        (
            {"where": {"variant": "b"}, "take": "min"},
            "1 rows .* are not ok, or have no fraction_of_copy",
        ),
        ({"where": {"variant": "a", "cols": {"from": 33}}, "take": "min"}, "has .*cols 33"),
        ({"where": {"variant": "a", "cols": {"to": 999}}, "take": "max"}, "has .*cols 999"),
    ],
)
def test_what_is_not_there_is_named(folder: Path, asked: dict[str, Any], said: str):
    with pytest.raises(BadFact, match=said):
        fact(folder, **{"column": "fraction_of_copy", "take": "only", "as": "ratio", **asked})


FRONTIER = {
    "table": "tidy/frontier.csv", "column": "fraction_of_copy", "as": "ratio",
    "where": {
        "timer": "device", "variant": "frontier", "dtype": "float32",
        "cols": {"from": 32, "to": 1_048_576},
    },
}  # fmt: skip


@pytest.mark.parametrize("take", ["min", "max", "median"])
def test_a_missing_row_of_a_sweep_is_named(folder: Path, take: str):
    sweep = tidy_of("frontier")
    asked = {**FRONTIER, "take": take}
    for name, told in (("whole", ""), ("gap", "the row is missing"), ("wrong", "wrong")):
        mine = (sweep["variant"] == "frontier") & (sweep["dtype"] == "float32")
        at = mine & (sweep["cols"] == 65_536)
        sweep.loc[at & (name == "wrong"), ["status", "timer", "fraction_of_copy"]] = (
            "wrong", "none", None,
        )  # fmt: skip
        source = folder / name
        (source / "tidy").mkdir(parents=True)
        kept = sweep[~at] if name == "gap" else sweep
        kept.to_csv(source / "tidy" / "frontier.csv", index=False)
        if not told:
            assert found({"it": asked}, source)["it"]["value"] > 0
            continue
        with pytest.raises(BadFact, match=f"cols 65536: {told}"):
            found({"it": asked}, source)


def test_a_number_of_what_is_not_ok_does_not_count(folder: Path):
    wrong = SPEEDS.assign(status=["ok", "wrong", "ok", "skipped"])
    wrong.to_csv(folder / "tidy" / "wrong.csv", index=False)
    asked = {"table": "tidy/wrong.csv", "column": "median_us", "as": "us"}
    assert fact(folder, where={"cols": 32}, take="max", **asked)["text"] == "12.3 µs"
    with pytest.raises(BadFact, match=r"1 rows .* with variant a are not ok"):
        fact(folder, where={"variant": "a"}, take="min", **asked)
    with pytest.raises(BadFact, match=r"no row .* has variant a, cols 1024 and a median_us"):
        fact(folder, where={"variant": "a", "cols": 1024}, take="only", **asked)


def test_claims_are_counted_only_where_all_are_there(folder: Path):
    table = claims()
    asked = {"table": "claims.csv", "where": {}, "take": "count", "as": "int"}
    table.to_csv(folder / "claims.csv", index=False)
    assert fact(folder, **asked)["value"] == len(table)
    some = folder / "some"
    some.mkdir()
    table[table["id"] != "C40"].to_csv(some / "claims.csv", index=False)
    with pytest.raises(BadFact, match="has no row of id C40: the row is missing"):
        fact(some, **asked)


@pytest.mark.parametrize("path", ["paper/facts.yaml", "paper/blog/facts.yaml"])
def test_the_texts_count_the_publications_claims_and_none_of_our_own(folder: Path, path: str):
    table = claims()
    mine = table.head(3).assign(id=["G1.1", "G1.2", "G2.1"], publication="own", kind="goal")
    table.loc[:1, "verdict"] = "refuted"
    table.loc[2, "verdict"] = "not applicable"
    pd.concat([table, mine]).to_csv(folder / "claims.csv", index=False)
    asked = {
        name: wanted
        for name, wanted in read_facts([ROOT / path]).items()
        if wanted["table"] == "claims.csv" and wanted["take"] == "count"
    }
    told = {name.split("claims_")[1]: f["value"] for name, f in found(asked, folder).items()}
    total = len(read_claims())
    expected = {"all": total, "supported": total - 3, "refuted": 2, "other": 1}
    assert told == {name: expected[name] for name in told}
    assert {"all", "supported", "refuted"} <= told.keys()


BESIDE = {
    "accuracy": (errors, {"variant": "frontier", "dtype": "float32"}, "max_ulps", "long tails"),
    "first_call": (waits, {"variant": "triton_constant"}, "first_ms", 3328),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_missing_row_beside_the_sweeps_is_named(folder: Path, name: str):
    make, where, column, gone = BESIDE[name]
    asked = {"table": f"{name}.csv", "where": where, "column": column, "take": "max", "as": "ratio"}
    for number, table in enumerate((whole := make(), whole[(whole != gone).all(axis=1)])):
        source = folder / str(number)
        source.mkdir()
        table.to_csv(source / f"{name}.csv", index=False)
    assert fact(folder / "0", **asked)["value"] == whole[column].max()
    with pytest.raises(BadFact, match=f"has no {column} of .*{gone}.*: the row is missing"):
        fact(folder / "1", **asked)


@pytest.mark.parametrize("take", ["min", "count"])
def test_a_missing_goal_is_named(folder: Path, take: str):
    rows = [
        {
            "goal": goal.number, "statement": goal.statement, "measured": goal.source,
            "place": goal.place, **goal.point._asdict(), "value": 1.0, "outcome": "met",
        }
        for goal in goals()
    ]  # fmt: skip
    whole = pd.DataFrame(rows)
    asked = {"table": "goals.csv", "where": {"goal": 4}, "column": "value", "take": take}
    asked["as"] = "ratio"
    one = (whole["goal"] == 4) & (whole["cols"] == 1_048_576)
    for name, table in (("whole", whole), ("gap", whole[~one])):
        (folder / name).mkdir()
        table.to_csv(folder / name / "goals.csv", index=False)
    assert fact(folder / "whole", **asked)["value"] == (1 if take == "min" else 8)
    with pytest.raises(BadFact, match=r"of goal 4, .* cols 1048576: the row is missing"):
        fact(folder / "gap", **asked)


def test_compiled_code_is_that_of_the_build(folder: Path, tmp_path: Path):
    table = tmp_path / "compiled" / "sm_90" / "resources.csv"
    table.parent.mkdir(parents=True)
    resources_of("sm_90").to_csv(table, index=False)
    asked = {
        "table": "build/sm_90/resources.csv", "column": "registers", "take": "only", "as": "int",
        "where": {"variant": "triton_row", "dtype": "float32", "cols_held": 1024, "edges": False},
    }  # fmt: skip
    assert found({"it": asked}, folder, tmp_path / "compiled")["it"]["text"] == "25"


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
