"""The table of operators in docs/operators.md: ranges over places, and what is not measured."""

from pathlib import Path

from experiments.family import OPERATORS
from experiments.family.archived import samples
from experiments.tables import write_raw
from tests.experiments.family.made import raw_of, stopped
from workflow.measured import operators, overview


def cells(archive: Path, name: str) -> list[list[str]]:
    """The rows of operator ``name``."""
    table = operators(archive).splitlines()[2:]
    rows = [row.strip("| ").split(" | ") for row in table]
    return [row for row in rows if row[0] == f"`{name}`"]


def test_ranges_are_over_the_places_at_which_ours_was_timed(tmp_path: Path):
    raw = raw_of("backward")
    path = tmp_path / samples("backward")
    path.parent.mkdir(parents=True)
    ours, log = raw["implementation"] == "ours", raw["asked"] == "log_softmax"
    # torch takes 3 (or 2) times as long, the compiler 1.5, a library that is wrong 1.
    raw = raw[raw["implementation"].isin(["ours", "torch", "torch_compile", "liger", "add"])].copy()
    factors = {"ours": 1.0, "torch": 3.0, "torch_compile": 1.5, "liger": 1.0, "add": 0.5}
    raw["time_ns"] = raw["implementation"].map(factors) * 1e4
    fewest = raw["cols"].min()
    raw.loc[(raw["implementation"] == "torch") & (raw["cols"] == fewest), "time_ns"] = 2e4
    wrong = stopped("wrong", "relative error 1 exceeds 0.01")
    for column, value in wrong.items():
        raw.loc[raw["implementation"] == "liger", column] = value
        raw.loc[ours & log & (raw["cols"] == fewest) & (raw["dtype"] == "float32"), column] = value
    write_raw(raw, path)
    count = sum(case.asked == "softmax" for case in OPERATORS["backward"].cases)
    plain, logarithm = cells(tmp_path, "backward")
    assert plain == [
        "`backward`", "softmax", str(count), "0.5 to 0.5", "2 to 3", "1.5 to 1.5", "1e-06", "0.01",
    ]  # fmt: skip
    count = len(OPERATORS["backward"].cases) - count
    assert logarithm[2] == f"{count - 1} of {count}"


def test_what_is_not_in_the_archive_is_not_yet_measured(tmp_path: Path):
    for name in OPERATORS:
        ((_, *rest),) = cells(tmp_path, name)
        assert set(rest) == {"not yet"}


def test_what_is_asked_since_an_archive_was_recorded_is_not_yet_measured(tmp_path: Path):
    raw = raw_of("calls")
    path = tmp_path / samples("calls")
    path.parent.mkdir(parents=True)
    write_raw(raw[raw["asked"] != "attention(q, k, v)"], path)
    *others, (_, asked, *rest) = cells(tmp_path, "calls")
    assert asked == "attention(q, k, v)"
    assert set(rest) == {"not yet"}
    assert len(others) == 5
    assert not any("not yet" in row for row in others)


def test_the_overview_marks_what_was_measured_with_earlier_code(tmp_path: Path):
    raw = raw_of("backward")
    factors = {"ours": 1.0, "torch": 3.0, "add": 0.5}
    raw = raw[raw["implementation"].isin(factors)].copy()
    raw["time_ns"] = raw["implementation"].map(factors) * 1e4
    for gpu, sha256 in (("new", raw["kernel_sha256"]), ("old", "a" * 64)):
        path = tmp_path / gpu / samples("backward")
        path.parent.mkdir(parents=True)
        write_raw(raw.assign(kernel_sha256=sha256), path)
    table = overview({gpu: tmp_path / gpu for gpu in ("new", "old", "none")}).splitlines()
    assert table[0].count("|") == 8
    lines = {row.split("`")[1]: row.strip("| ").split(" | ")[1:] for row in table[2:]}
    assert list(lines) == list(OPERATORS)
    assert lines["backward"] == [
        "0.5 to 0.5", "3 to 3", "0.5 to 0.5†", "3 to 3†", "not yet", "not yet"
    ]  # fmt: skip
    assert set(lines["sample"]) == {"not yet"}
