"""docs/frontier.md's generated numbers follow from the archive, the tables and the code."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments import attempts, counts, tried
from experiments.goal import TRITON_FRONTIER, goals
from experiments.layout import CONTIGUOUS, Place
from experiments.tune_triton import WIDTHS
from kernels.frontier.plans import NONE, REGIMES
from kernels.frontier.select import DEFAULT
from kernels.occupancy import blocks
from kernels.registry import DTYPES
from kernels.triton import _select as in_triton
from kernels.triton._rows import registers
from workflow import forward, in_flight
from workflow.artifact import ARCHIVE, BOTH, verdicts
from workflow.commits import told
from workflow.in_flight import served
from workflow.machine import ROOT

FIVE = [goal for goal in goals() if goal.number <= 5]


def cells(line: str) -> list[str]:
    """Those of a line of a table."""
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def rows(table: str) -> list[list[str]]:
    """Below the head."""
    return [cells(line) for line in table.splitlines()[2:]]


def test_every_goal_belongs_to_one_group():
    claims = [claim for some in forward.GROUPS.values() for claim in some]
    assert sorted(set(claims)) == sorted(claims)
    assert {goal.claim for goal in FIVE} == {*claims}


def test_the_summary_counts_every_place_of_both_archives():
    for (words, *told_of), claims in zip(
        rows(forward.summary(BOTH)), forward.GROUPS.values(), strict=True
    ):
        asked = sum(goal.claim in claims for goal in FIVE)
        assert words in forward.summary(BOTH)
        for cell in told_of:
            assert sum(int(part.split()[0]) for part in cell.split(", ")) == asked


def test_what_is_stale_is_told_as_such(monkeypatch: pytest.MonkeyPatch):
    first = forward.judged(ARCHIVE)[0]
    old = first._replace(stale=True)
    assert old.told == f"{first._replace(stale=False).told}†"
    monkeypatch.setattr(forward, "judged", lambda _: [old])
    assert rows(forward.summary({"H200": ARCHIVE}))[0][1] == "1 stale"


def test_a_place_is_told_once_with_every_sweep_that_has_it(monkeypatch: pytest.MonkeyPatch):
    at = [each for each in forward.judged(ARCHIVE) if each.goal.claim == "G2.1"][:1]
    point = at[0].goal
    again = [
        at[0]._replace(goal=replace(point, source="frontier"), outcome=word, stale=False)
        for word in ("met", "open")
    ]
    elsewhere = again[0]._replace(goal=replace(point, point=point.point._replace(rows=7)))
    monkeypatch.setattr(forward, "judged", lambda _: [*again, elsewhere])
    (place, said), = forward.unmet(ARCHIVE).items()  # fmt: skip
    assert place == Place(*point.point)
    assert said == f"2.1: {again[0].told}, {again[1].told}"


@pytest.mark.parametrize(
    ("archive", "page"),
    [(ARCHIVE, "verdicts.md"), (BOTH["H100"], "verdicts_h100.md")],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_outcomes_are_those_of_the_verdicts(archive: Path, page: str):
    known, counts = verdicts(ROOT / "docs" / page), Counter[tuple[str, str]]()
    for each in forward.judged(archive):
        counts[each.goal.claim, "stale" if each.stale else each.outcome] += 1
    for claim in {goal.claim for goal in FIVE}:
        _, said = known[claim].told.split(": ")
        for part in said.split(", "):
            number, word = part.split(" ", 1)
            if word in ("met", "missed", "open", "stale"):
                assert counts.pop((claim, word)) == int(number)
    assert not counts


def test_launches_are_those_that_ncu_counted():
    profile = forward.evidence(ARCHIVE).tables["profile"]
    assert profile is not None
    unmet = forward.unmet(ARCHIVE)
    counted = {place: forward.counted_at(profile, place) for place in unmet}
    # What is missed has been counted; which places are open differs from one recording to the next.
    missed = [place for place, said in unmet.items() if "(missed)" in said]
    assert missed
    assert all(counted[place] for place in missed)
    current = {place: row for place, row in counted.items() if row and not row["stale"]}
    assert len(current) > len(counted) / 2
    for place, row in current.items():
        here = served(place)
        assert (row["grid_size"], row["waves"]) == (
            here.blocks, pytest.approx(here.waves, abs=0.006),
        )  # fmt: skip


def test_whatever_serves_a_goals_place_can_be_told(monkeypatch: pytest.MonkeyPatch):
    # Without compiling each of hundreds: how many blocks fit says nothing of what is launched.
    used = SimpleNamespace(registers=32, static_shared_bytes=0)
    made = SimpleNamespace(kernels=[SimpleNamespace(resources=used)])
    monkeypatch.setattr(in_flight, "compile_plan", lambda plan, job: made)
    every = {Place(*g.point, g.place or CONTIGUOUS) for g in FIVE if g.number in forward.CUDA}
    regimes = set()
    for place in every:
        here = served.__wrapped__(place)
        assert here.waves > 0
        assert here.kilobytes > 0
        regimes.add(here.plan.shape.regime)
    assert regimes == {*REGIMES} - {"stream"}


def test_places_are_told_with_what_serves_them_first():
    table = tried.read(tried.beside(forward.TABLES / f"{DEFAULT}.json"))
    told_of = {row[0]: row for row in rows(forward.places(ARCHIVE))}
    for place in forward.unmet(ARCHIVE):
        row, found = told_of[place.told], attempts.tried_at(place, table)
        assert row[3].startswith(f"{served(place).plan.label} ")
        assert found["fraction_of_copy"].is_monotonic_decreasing


def test_ncu_is_asked_for_every_place_that_is_not_met():
    assert set(forward.unmet(ARCHIVE)) <= set(counts.watched())


def test_a_place_that_ncu_did_not_watch_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forward, "counted_at", lambda profile, place: None)
    assert {row[7] for row in rows(forward.places(ARCHIVE))} == {"not counted"}


def test_wide_rows_in_triton_are_told_as_they_are_chosen():
    profile = forward.evidence(ARCHIVE).tables["profile"]
    assert profile is not None
    widths = [int(row[0].replace(",", "")) for row in rows(forward.wide_in_triton(ARCHIVE))]
    assert widths == sorted({
        each.goal.point.cols for each in forward.judged(ARCHIVE)
        if each.goal.claim == forward.TWICE and each.outcome != "met"
    })  # fmt: skip
    table = tried.read(tried.beside(in_triton.TABLES / f"{DEFAULT}.json"))
    # What is chosen was the fastest where it was tuned; other widths were tried beside it.
    table = table[table["cols"].isin(WIDTHS)]
    for dtype in DTYPES:
        for cols in widths:
            chosen = forward.chosen_in_triton(dtype, cols)
            three = tried.at(table, dtype, NONE, 1, cols).head(attempts.BEST)
            assert set(three["regime"]) == {"grid"}
            assert tuple(three.iloc[0]["sizes"]) == chosen.sizes
            bound = registers(chosen.dealt.warps, chosen.dealt.programs)
            fit = blocks(in_flight.ARCH, 32 * chosen.dealt.warps, bound, shared_bytes=0)
            assert fit == chosen.dealt.programs  # as ncu saw: one wave
    here = profile[(profile["variant"] == TRITON_FRONTIER) & profile["cols"].isin(widths)]
    most = here.loc[here.groupby(["dtype", "cols"])["rows"].idxmax()]
    assert set(most["stall"]) == {"barrier"}
    shapes = rows(forward.tuned_in_triton(ARCHIVE))
    assert [row[0] for row in shapes] == [f"{cols:,}" for cols in widths]
    for row in shapes:
        assert [cell.count(" (now) ") for cell in row[1:]] == [1, 1, 1]


def test_a_shape_in_triton_that_is_chosen_stands_behind_the_three(monkeypatch: pytest.MonkeyPatch):
    table = tried.read(tried.beside(in_triton.TABLES / f"{DEFAULT}.json"))
    slow = tried.at(table, "float32", NONE, 1, 2**18).iloc[5]
    chosen = in_triton.Shape(slow["regime"], tuple(slow["sizes"]), bool(slow["raw"]))
    monkeypatch.setattr(forward, "chosen_in_triton", lambda dtype, cols: chosen)
    told_of = {row[0]: row[1] for row in rows(forward.tuned_in_triton(ARCHIVE))}
    shapes = told_of["262,144"].split(", ")
    assert len(shapes) == 4
    name = "x".join([f"{slow['regime']} {slow['sizes'][0]}", *map(str, slow["sizes"][1:])])
    assert shapes[3] == f"{name} (now) {slow['fraction_of_copy']:.3f}"
    assert "(now)" not in ", ".join(shapes[:3])


def test_commits_are_told_by_the_tables_that_are_of_them(tmp_path: Path):
    first, second = "a234567" + "0" * 33, "89abcde" + "0" * 33
    commits = {"a": [first], "b": [first[:-1] + "1"], "c": [second, second, first, ""]}
    files = {}
    for name, of in commits.items():
        files[name] = tmp_path / f"{name}.csv"
        files[name].write_text("\n".join(["code_commit,n", *(f"{commit},1" for commit in of)]))
    assert told(files) == "`a` and `b` of a234567; `c` of 89abcde and a234567"
