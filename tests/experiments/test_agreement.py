"""A run beside an archive: what agrees, what differs, and what neither can say."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.agreement import AGREE, BUILD, DIFFER, NOT_ARCHIVED, NOT_HERE, UNDECIDED
from experiments.claims import CLAIMS, read_verdicts
from experiments.outcomes import GOALS
from experiments.tables import validated
from tests.commands import module

HERE, THERE = "local-test-gpu", "archive-other-gpu"
GONE = math.nan


def claim(number: int, source: str, verdict: str, value: float, **changes: Any) -> dict[str, Any]:
    return {
        "source": source, "id": f"C{number:02}", "publication": "S1", "place": "results",
        "statement": f"Claim {number} | holds.", "kind": "ratio", "measured": "speed",
        "condition": "above 1", "carries_over": True, "value": value, "low": value, "high": value,
        "noise": 0.0, "n_points": 2, "n_asked": 2, "n_blocks": 5, "verdict": verdict,
        "reason": f"why {number}", "archived": "", **changes,
    }  # fmt: skip


def goal(cols: int, source: str, outcome: str, value: float, **changes: Any) -> dict[str, Any]:
    return {
        "source": source, "claim": "G1.1", "goal": 1, "statement": "fraction of copy",
        "measured": "frontier", "place": "", "dtype": "float32", "rows": 8, "cols": cols,
        "value": value, "low": value, "high": value, "noise": 0.0, "least": 0.9, "most": math.inf,
        "outcome": outcome, "note": "", **changes,
    }  # fmt: skip


CASES: list[tuple[tuple[str, float], tuple[str, float], str]] = [
    (("supported", 1.5), ("supported", 1.2), AGREE),
    (("refuted", 0.5), ("refuted", 0.7), AGREE),
    (("supported", 1.5), ("refuted", 0.7), DIFFER),
    (("refuted", 0.5), ("supported", 1.2), DIFFER),
    (("inconclusive", 1.01), ("supported", 1.2), UNDECIDED),
    (("supported", 1.5), ("stale", 1.2), UNDECIDED),
    (("not applicable", 1.5), ("not applicable", 1.2), UNDECIDED),
    (("not applicable", GONE), ("supported", 1.2), NOT_HERE),
    (("not applicable", GONE), ("not applicable", GONE), NOT_HERE),
    (("supported", 1.5), ("not applicable", GONE), NOT_ARCHIVED),
]
OUTCOMES = {
    "supported": "met", "refuted": "missed", "inconclusive": "open", "stale": "stale",
    "not applicable": "unknown",
}  # fmt: skip


def written(folder: Path, source: str, side: int, **changes: Any) -> Path:
    """A folder with the claims and goals of CASES, the first or second of each pair."""
    folder.mkdir(exist_ok=True)
    told = [(here, there)[side] for here, there, _ in CASES]
    claims = [claim(n, source, *one, **changes) for n, one in enumerate(told)]
    goals = [goal(2**n, source, OUTCOMES[word], value) for n, (word, value) in enumerate(told)]
    validated(CLAIMS, pd.DataFrame(claims)).to_csv(folder / "claims.csv", index=False)
    validated(GOALS, pd.DataFrame(goals)).to_csv(folder / "goals.csv", index=False)
    return folder


def compared(tmp_path: Path, **changes: Any) -> tuple[int, str, str]:
    """Exit code, output and page of the command."""
    here = written(tmp_path / "here", HERE, 0, **changes)
    there = written(tmp_path / "there", THERE, 1, **changes)
    return command(here, there)


def command(here: Path, there: Path) -> tuple[int, str, str]:
    out = here / "agreement.md"
    done = module("experiments.agreement", "--here", here, "--archive", there, "--out", out)
    assert "Traceback" not in done.stdout
    return done.returncode, done.stdout, out.read_text() if out.exists() else ""


def cells(text: str, start: str) -> list[str]:
    """Those of the only row of ``text`` that starts so."""
    (row,) = (line for line in text.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in row.replace(r"\|", "/")[1:-1].split("|")]


def test_every_claim_has_both_values_both_verdicts_and_a_word(tmp_path: Path):
    code, _, text = compared(tmp_path)
    assert code == 0
    for number, (mine, theirs, word) in enumerate(CASES):
        name, statement, _, value, verdict, other, others, found = cells(text, f"C{number:02}")
        assert statement == f"Claim {number} / holds."
        assert found == (f"**{word}**" if word == DIFFER else word), name
        for told, told_value, (expected, number_there) in (
            (verdict, value, mine),
            (others, other, theirs),
        ):
            assert told.startswith(f"**{expected}**")
            assert told_value == ("–" if math.isnan(number_there) else f"{number_there:.3f}")
    assert f"| {HERE} | verdict | {THERE} | verdict |" in text


def test_a_claim_that_was_not_rerun_says_so_with_its_reason(tmp_path: Path):
    *_, verdict, _, _, found = cells(compared(tmp_path)[2], "C07")
    assert found == "not measured here"
    assert verdict == "**not applicable**: why 7"


def test_the_sum_names_the_claims_that_differ(tmp_path: Path):
    _, _, text = compared(tmp_path)
    assert text.startswith(f"What {HERE} says, beside {THERE}.\n")
    counts = "2 agree, 2 differ, 3 undecided, 2 not measured here, 1 not in the archive"
    assert f"\n10 claims: {counts}. They differ on C02, C03.\n" in text
    assert f"\n10 places of goals: {counts}.\n" in text


def test_what_is_compiled_is_no_agreement_of_two_gpus(tmp_path: Path):
    _, _, text = compared(tmp_path, kind="resource")
    assert f"\n10 claims: 10 {BUILD}.\n" in text
    assert "They differ on" not in text


def test_our_own_claims_are_counted_apart(tmp_path: Path):
    for name, side in ((HERE, 0), (THERE, 1)):
        folder = written(tmp_path / name, name, side)
        told = read_verdicts(folder / "claims.csv")
        mine = {"publication": "own", "kind": "goal", "low": 0.5, "high": 1.5}
        told.loc[told["id"] == "C03", [*mine]] = [*mine.values()]
        told.to_csv(folder / "claims.csv", index=False)
    code, _, text = command(tmp_path / HERE, tmp_path / THERE)
    assert code == 0
    assert "\n9 claims: 2 agree, 1 differ, 3 undecided" in text
    assert "They differ on C02.\n" in text
    assert "\n1 claims of our own: 1 differ. They differ on C03.\n" in text
    assert cells(text, "C03")[3] == "0.500 to 1.500"


def test_a_goal_has_its_places_counted_on_both_sides(tmp_path: Path):
    _, _, text = compared(tmp_path)
    row = cells(text, "G1.1 | fraction of copy | at least 0.9 | 10")
    assert row[4:8] == [
        "4 met, 2 missed, 1 open, 3 unknown", "0.500 to 1.500",
        "4 met, 2 missed, 1 stale, 3 unknown", "0.700 to 1.200",
    ]  # fmt: skip
    assert row[8:] == ["2", "2", "3", "2", "1"]


def test_the_places_where_goals_differ_are_listed(tmp_path: Path):
    _, _, text = compared(tmp_path)
    listed = text.split("Where they differ:\n")[1]
    assert [line for line in listed.splitlines() if line.startswith("| G1.1 |")] == [
        "| G1.1 | fraction of copy | float32 8 x 4, frontier | at least 0.9 "
        "| 1.500 [1.500, 1.500] | **met** | 0.700 [0.700, 0.700] | **missed** |",
        "| G1.1 | fraction of copy | float32 8 x 8, frontier | at least 0.9 "
        "| 0.500 [0.500, 0.500] | **missed** | 1.200 [1.200, 1.200] | **met** |",
    ]
    same = written(tmp_path / "same", HERE, 0)
    assert "Where they differ" not in command(same, same)[2]


@pytest.mark.parametrize("name", ["claims.csv", "goals.csv"])
def test_tables_of_something_else_are_one_sentence(name: str, tmp_path: Path):
    here, there = (written(tmp_path / f, HERE, 0) for f in ("here", "there"))
    pd.read_csv(there / name, keep_default_na=False).iloc[1:].to_csv(there / name, index=False)
    code, said, text = command(here, there)
    assert (code, text) == (2, "")
    assert said == f"{here / name} judges something else than {there / name}: make both anew\n"
    (there / name).write_text("a,b\n1,2\n")
    code, said, _ = command(here, there)
    assert code == 2
    assert said.startswith(f"{there / name} holds no ")
    (there / name).unlink()
    code, said, _ = command(here, there)
    assert code == 2
    assert said.count("\n") == 1
    assert str(there / name) in said
