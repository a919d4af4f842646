"""What the sanitizer's tools found is told for people, and fails where that is asked for."""

from pathlib import Path

import pytest

from experiments.findings import told
from experiments.sanitizer import NAMES, PLANTED, TOOLS
from tests.commands import module
from tests.experiments.watched import sanitized

RUNS = len(TOOLS) * len(NAMES)


def test_clean_runs_are_counted_without_the_planted_faults():
    text = told(sanitized().assign(stale=False))
    assert text.endswith(f"\n{RUNS} of {RUNS} runs are clean.")
    assert sum(line.startswith("| ") for line in text.splitlines()) == 2 + RUNS + len(TOOLS)


def test_a_finding_is_named_with_its_first_words():
    text = told(sanitized(found_in=["staged"]).assign(stale=False))
    assert f"{RUNS - len(TOOLS)} of {RUNS} runs are clean." in text
    assert "\nracecheck, staged: " in text


def test_a_tool_that_missed_its_fault_is_named():
    table = sanitized().assign(stale=False)
    missed = (table["tool"] == "racecheck") & (table["regime"] == PLANTED)
    table.loc[missed, ["status", "reason", "errors"]] = ["wrong", "found nothing", None]
    text = told(table)
    assert text.endswith(f"{RUNS} of {RUNS} runs are clean; racecheck missed what was planted.")
    assert "| racecheck | planted | 1 | 1 to 1 | – | 2 | wrong |" in text


def test_what_watched_earlier_code_is_named(tmp_path: Path):
    table, path = sanitized(), tmp_path / "sanitizer.csv"
    earlier = table["regime"].isin(["columns", "backward"])
    table.assign(kernel_sha256=table["kernel_sha256"].mask(earlier, "c" * 64)).to_csv(
        path, index=False
    )
    done = module("experiments.findings", path)
    assert done.returncode == 0
    said = f"{RUNS} of {RUNS} runs are clean; stale, of earlier code: columns, backward.\n"
    assert done.stdout.endswith(said)


@pytest.mark.parametrize(("found_in", "code"), [((), 0), (("warp",), 1)])
def test_the_command_fails_where_something_was_found(
    tmp_path: Path, found_in: tuple[str, ...], code: int
):
    path = tmp_path / "sanitizer.csv"
    sanitized(found_in).to_csv(path, index=False)
    assert module("experiments.findings", path).returncode == code


def test_another_table_is_one_sentence(tmp_path: Path):
    (path := tmp_path / "other.csv").write_text("a,b\n1,2\n")
    done = module("experiments.findings", path)
    assert done.returncode == 2
    assert "is not a table of the sanitizer's runs: missing or unknown columns" in done.stdout
