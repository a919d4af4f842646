"""Goals on hand-made measurements: met, missed, open and unknown, and which way round."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.counts import FEW_ROWS, read_beside
from experiments.estimate import NotApplicable, Recorded
from experiments.goal import ALLOWED, BEFORE, BEST_PEER, FAMILY, FRONTIER, Goal, goals
from experiments.goals import Evidence, Found, evaluate, find, outcome, with_rivals
from experiments.layout import LAYOUTS
from experiments.outcomes import GOALS, markdown
from experiments.sanitizer import NAMES, TOOLS
from experiments.sanitizer import OPERATORS as WATCHED
from experiments.sweeps import SWEEPS, Point
from experiments.tables import SANITIZER, read_csv, validated
from experiments.tidy import tidy
from tests.commands import ROOT, module
from tests.experiments.counted import COMMIT, counted
from tests.experiments.family.made import tidy_of
from tests.experiments.raw import Row, blocks, raw
from tests.experiments.trained import decoded, trained
from tests.experiments.watched import placed_rows, sanitized

BLOCKS = 5
NARROW, WIDE = Point("float32", 4, 1024), Point("float32", 4, 131_072)


def timed(name: str, ns: float, point: Point = NARROW, **changes: Any) -> list[Row]:
    """The same in every block, but for the twentieth part of a per cent."""
    times = [ns * (1 + i / 2000) for i in range(BLOCKS)]
    return blocks(name, *times, **point._asdict(), **changes)


def evidence(*rows: Row, source: str = "few_rows", again: float = 1.0) -> Evidence:
    """A sweep of ``rows``; copy takes 1000 ns, torch_eager the second time ``again`` the first."""
    table = raw(*rows)
    places = {Point(*p) for p in table[["dtype", "rows", "cols"]].itertuples(index=False)}
    others = {"copy_torch": 1000.0, "torch_eager": 9e6, "torch_eager/again": 9e6 * again}
    pairs = [row for p in places for name, ns in others.items() for row in timed(name, ns, p)]
    table = raw(*rows, *pairs)
    recorded = Recorded.of(table, tidy(table), "torch_eager", places)
    return Evidence({source: with_rivals(recorded)}, {})


def judged(goal: Goal, some: Evidence) -> str:
    return outcome(goal, find(goal, some))


def goal(against: str, point: Point = NARROW, **keys: Any) -> Goal:
    told = {"claim": "G1.1", "statement": "so it is", "source": "few_rows", **keys}
    return Goal(point=point, against=against, **told)


@pytest.mark.parametrize(
    ("ns", "expected"), [(1000.0, "met"), (1009.0, "met"), (1012.0, "missed"), (2000.0, "missed")]
)
def test_a_fraction_of_copy(ns: float, expected: str):
    found = evidence(*timed(FRONTIER, ns))
    assert judged(goal("copy", least=0.99), found) == expected
    assert find(goal("copy", least=0.99), found).value == pytest.approx(1000 / ns)


def test_an_interval_across_the_bound_is_open():
    found = evidence(*blocks(FRONTIER, 900, 900, 1100, 1100, 1100, **NARROW._asdict()))
    assert judged(goal("copy", least=0.99), found) == "open"


def test_one_block_is_never_met_but_can_miss():
    def single(ns: float) -> Evidence:
        rows = [timed(name, t)[0] for name, t in (("copy_torch", 1000.0), (FRONTIER, ns))]
        table = raw(*rows)
        recorded = Recorded.of(table, tidy(table), "torch_eager", [NARROW])
        return Evidence({"few_rows": with_rivals(recorded)}, {})

    assert judged(goal("copy", least=0.99), single(500.0)) == "open"
    assert judged(goal("copy", least=0.99), single(5000.0)) == "missed"


def test_the_best_peer_is_the_fastest_of_them():
    rows = [*timed("quack", 2000.0), *timed("triton_row", 1500.0), *timed("triton_online", 10.0)]
    found = find(goal(BEST_PEER), evidence(*rows, *timed(FRONTIER, 1000.0)))
    assert found.value == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("ns", "noise", "no_slower", "ahead"),
    [
        (1000.0, 1.0, "met", "missed"),
        (950.0, 1.0, "met", "met"),
        (1050.0, 1.0, "missed", "missed"),
        # A twentieth is no difference where the same code differs by a tenth.
        (1050.0, 1.1, "met", "missed"),
        (950.0, 1.1, "met", "missed"),
        (1200.0, 1.1, "missed", "missed"),
        (800.0, 1.1, "met", "met"),
    ],
)
def test_the_noise_floor_counts_for_no_slower_and_against_ahead(
    ns: float, noise: float, no_slower: str, ahead: str
):
    found = evidence(*timed("quack", 1000.0), *timed(FRONTIER, ns), again=noise)
    assert judged(goal(BEST_PEER, least=1.0, noise=-1), found) == no_slower
    least = 1.0 + 1e-9
    assert judged(goal(BEST_PEER, least=least, noise=1), found) == ahead


def test_the_time_allowed_is_the_larger_of_two():
    # Copy takes 1 µs: 3.5 µs are allowed.
    for ns, expected in ((3400.0, "met"), (3600.0, "missed")):
        assert judged(goal(ALLOWED, least=1.0), evidence(*timed(FRONTIER, ns))) == expected
    rows = [*timed("copy_torch", 1e6, WIDE), *timed(FRONTIER, 1.24e6, WIDE)]
    table = raw(*rows)
    wide = with_rivals(Recorded.of(table, tidy(table), "torch_eager", [WIDE]))
    found = find(goal(ALLOWED, WIDE), Evidence({"few_rows": wide}, {}))
    assert found.value == pytest.approx(1.25 / 1.24)


def test_what_came_before_in_triton_is_the_row_kernel_where_it_runs():
    mine = [*timed(FRONTIER, 1000.0), *timed(FRONTIER, 1000.0, WIDE)]
    tiled = [*timed("triton_tiled_1024", 1200.0), *timed("triton_tiled_1024", 2000.0, WIDE)]
    found = evidence(
        *mine, *tiled, *timed("triton_tiled_4096", 5000.0, WIDE), *timed("triton_row", 3000.0)
    )
    assert find(goal(BEFORE), found).value == pytest.approx(3.0)
    assert find(goal(BEFORE, WIDE), found).value == pytest.approx(2.0)


def test_measured_with_other_code_is_stale():
    found = evidence(*timed(FRONTIER, 1000.0, kernel_sha256="c" * 64))
    assert judged(goal("copy", least=0.99), found) == "stale"


def test_calls_of_other_code_leave_what_the_device_took():
    calls = timed(FRONTIER, 9000.0, timer="call", kernel_sha256="c" * 64)
    found = evidence(*timed(FRONTIER, 1000.0), *calls)
    assert judged(goal("copy", least=0.99), found) == "met"


@pytest.mark.parametrize(
    ("point", "source", "why"),
    [
        (NARROW, "frontier", "frontier was not measured"),
        (WIDE, "few_rows", "no point of the region was measured"),
    ],
)
def test_what_is_not_there_is_unknown(point: Point, source: str, why: str):
    with pytest.raises(NotApplicable, match=why):
        find(goal("copy", point, source=source), evidence(*timed(FRONTIER, 1000.0)))


def test_bytes_are_counted_both_ways():
    table = counted().assign(stale=False)
    wanted = next(g for g in goals() if g.source == "profile" and g.number == 4)
    mine = (table["variant"] == FRONTIER) & (table["cols"] == wanted.point.cols)
    for factor, expected in ((1.0, "met"), (1.05, "missed"), (0.9, "missed")):
        both = ["dram_read_bytes", "dram_write_bytes"]
        changed = table.copy()
        changed.loc[mine, both] = table.loc[mine, ["ideal_bytes"] * 2].to_numpy() / 2 * factor
        assert judged(wanted, Evidence({}, {"profile": changed})) == expected


def test_few_rows_are_read_once_in_one_launch():
    some = [g for g in goals() if g.source == "profile" and g.number == 3]
    assert {g.point for g in some} == set(FEW_ROWS)
    launches, read = some[:2]
    assert (launches.point, launches.variant) == (read.point, read.variant)
    table = counted().assign(stale=False)
    at = (table["variant"] == FRONTIER) & (table["rows"] == read.point.rows)
    at &= (table["cols"] == read.point.cols) & (table["dtype"] == read.point.dtype)
    once = table.loc[at, "ideal_bytes"] / 2

    def both(times_read: float, n: int) -> tuple[str, str]:
        changed = table.copy()
        changed.loc[at, "dram_read_bytes"] = once * times_read
        changed.loc[at, "dram_write_bytes"] = 0.0
        changed.loc[at, "launches"] = n
        evidence = Evidence({}, {"profile": changed})
        return judged(read, evidence), judged(launches, evidence)

    assert both(1.0, 1) == ("met", "met")
    assert both(1.02, 2) == ("met", "missed")
    assert both(2.0, 1) == ("missed", "met")
    assert both(0.5, 1) == ("missed", "met")


def test_other_layouts_are_no_goal_of_contiguous_rows():
    wanted = next(g for g in goals() if g.source == "profile" and g.number == 4)
    table = counted().assign(stale=False, layout="sliced input")
    with pytest.raises(NotApplicable, match=r"profile\.csv has no such row"):
        find(wanted, Evidence({}, {"profile": table}))


def test_rows_off_16_bytes_are_judged_by_their_layout():
    some = [g for g in goals() if g.source == "layouts"]
    for fraction, expected in ((0.98, {"met"}), (0.96, {"met", "open"}), (0.9, {"missed"})):
        kept = Evidence({}, {"layouts": placed_rows(fraction).assign(stale=False)})
        assert {judged(g, kept) for g in some} == expected
    stopped = placed_rows(status="skipped", reason="no room").assign(stale=False)
    with pytest.raises(NotApplicable, match="skipped: no room"):
        find(some[0], Evidence({}, {"layouts": stopped}))


def of_sanitizer(table: pd.DataFrame) -> pd.DataFrame:
    """What comes of the goals of goal 6."""
    kept = Evidence({}, {"sanitizer": table.assign(stale=False)})
    made = evaluate(kept, "archive-test-gpu")
    return made[made["measured"] == "sanitizer"]


def test_findings_count_where_the_planted_fault_was_found():
    some = [g for g in goals() if g.source == "sanitizer"]

    def outcomes(table: pd.DataFrame) -> set[str]:
        return set(of_sanitizer(table)["outcome"])

    assert len(some) == 3 * len(NAMES)
    assert outcomes(sanitized()) == {"met"}
    assert outcomes(sanitized(found_in=["chunks"])) == {"met", "missed"}
    clean = sanitized()
    wrong = clean.assign(status=clean["status"].where(clean["regime"] != "tile", "wrong"))
    assert outcomes(wrong) == {"met", "missed"}
    blind = clean.assign(status=clean["status"].where(clean["regime"] != "planted", "wrong"))
    assert outcomes(blind) == {"unknown"}


def test_operators_that_no_tool_has_watched_yet_are_unknown_and_the_regimes_are_not():
    table = sanitized()
    earlier = table[~table["regime"].isin(WATCHED)].assign(stale=False)
    made = evaluate(Evidence({}, {"sanitizer": earlier}), "archive-test-gpu")
    made = made[made["goal"] == 6].set_index("place")
    of_operators = made["statement"] == "findings of Compute Sanitizer in operators"
    assert set(made.loc[of_operators, "outcome"]) == {"unknown"}
    assert set(made.loc[~of_operators, "outcome"]) == {"met"}
    assert sum(of_operators) == 3 * len(WATCHED)
    assert made.loc["racecheck, columns", "note"] == "racecheck, columns was not watched"
    found = sanitized(found_in=["backward"]).assign(stale=False)
    made = evaluate(Evidence({}, {"sanitizer": found}), "archive-test-gpu")
    missed = made[made["outcome"] == "missed"]
    assert set(missed["place"]) == {f"{tool}, backward" for tool in TOOLS}


def test_a_finding_is_stale_when_its_own_code_has_changed(tmp_path: Path):
    table = sanitized()
    table.loc[table["variant"] == "columns", "kernel_sha256"] = "c" * 64
    table.to_csv(tmp_path / "sanitizer.csv", index=False)
    kept = read_beside(tmp_path / "sanitizer.csv", SANITIZER)
    assert set(kept.loc[kept["stale"], "regime"]) == {"columns"}


def test_a_claim_is_one_statement_with_one_bound_and_an_id_of_its_goal():
    said: dict[str, set[tuple[Any, ...]]] = {}
    for each in goals():
        assert re.fullmatch(r"G[1-9]\d*\.[1-9]\d*", each.claim)
        assert each.claim.split(".")[0] == f"G{each.number}"
        said.setdefault(each.claim, set()).add((each.statement, each.least, each.most))
    assert {len(statements) for statements in said.values()} == {1}
    # As they are recorded: an id that is cited says the same for ever.
    lines = (ROOT / "docs" / "verdicts.md").read_text().splitlines()
    recorded = [line.split(" | ") for line in lines if line.startswith("| G")]
    kept = {cells[0].removeprefix("| "): cells[2] for cells in recorded}
    assert kept == {claim: next(iter(one))[0] for claim, one in said.items()}


def test_goals_are_asked_where_the_sweeps_measure():
    some = list(goals())
    for each in some:
        if each.source in SWEEPS:
            assert each.point in set(SWEEPS[each.source].points("full"))
            assert each.variant in SWEEPS[each.source].variants or each.number == 5
    least = {g.point: g.least for g in some if g.number == 1 and g.source == "frontier"}
    by_shape = {(p.dtype, p.cols): bound for p, bound in least.items()}
    assert by_shape["float32", 1024] == 0.99
    assert by_shape["float32", 2048] == 0.975
    assert by_shape["float32", 50_257] == by_shape["bfloat16", 2**20] == 0.97
    assert by_shape["bfloat16", 50_257] == by_shape["float16", 100_003] == 0.96
    assert by_shape["float32", 2**22] == 0.90
    assert len(by_shape) == 3 * 24
    off = [g for g in some if g.source == "layouts"]
    assert {g.place for g in off} == {x.name for x in LAYOUTS}
    assert {g.point.cols for g in off if g.place == "contiguous"} == {50_257}


def test_an_outcome_needs_the_whole_interval():
    bound = goal("copy", least=0.5, most=2.0)
    for low, high, expected in ((0.5, 2.0, "met"), (0.4, 0.6, "open"), (2.1, 3.0, "missed")):
        assert outcome(bound, Found((low + high) / 2, low, high)) == expected


def test_the_table_for_people_names_what_is_not_met():
    some = evidence(*timed(FRONTIER, 5000.0, Point("bfloat16", 1, 131_072)))
    made = evaluate(some, "archive-test-gpu")
    assert len(made) == len(list(goals()))
    text = markdown(validated(GOALS, made))
    assert text.startswith("Goals on archive-test-gpu: ")
    line = next(row for row in text.splitlines() if "**missed**" in row)
    assert line.startswith("| G3.1 |")
    assert "bfloat16 1 x 131,072, few_rows" in line
    assert "5.005 µs; the time allowed: 3.501 µs" in line
    assert "frontier was not measured" in text


def test_what_is_stale_is_told_after_what_is_missed_and_apart():
    made = evaluate(evidence(*timed(FRONTIER, 5000.0, Point("bfloat16", 1, 131_072))), "archive-a")
    missed = made[made["outcome"] == "missed"]
    earlier = missed.assign(outcome="stale")
    parts = markdown(pd.concat([earlier, missed])).split("\n\n")
    titles = ["Not met:", "Measured with earlier code, which counts for nothing:"]
    assert [part for part in parts if part in titles] == titles
    tables = [parts[parts.index(title) + 1] for title in titles]
    for table, word in zip(tables, ("missed", "stale"), strict=True):
        assert re.findall(r"\*\*(\w+)\*\*", table) == [word] * len(missed)
    assert titles[1] not in markdown(missed)


def test_the_command_writes_both_files(tmp_path: Path):
    counted().to_csv(tmp_path / "profile.csv", index=False)
    made_files = tmp_path / "goals.csv", tmp_path / "goals.md"
    command = ["experiments.goals", "--folder", tmp_path, "--source", "archive-test-gpu", "--out"]
    command += [made_files[0], "--table", made_files[1]]
    done = module(*command)
    assert done.returncode == 0, done.stdout
    texts = {"place": "", "note": "", "dtype": ""}
    made = validated(GOALS, read_csv(made_files[0]).fillna(texts))
    assert set(made.loc[made["measured"] != "profile", "outcome"]) == {"unknown"}
    tidy_folder = tmp_path / "family" / "tidy"
    tidy_folder.mkdir(parents=True)
    tidy_of("columns").to_csv(tidy_folder / "columns.csv", index=False)
    assert module(*command).returncode == 0
    again = read_csv(made_files[0])
    of_columns = again["measured"] == f"{FAMILY}columns"
    assert "met" in set(again.loc[of_columns, "outcome"])
    trained().to_csv(tmp_path / "training.csv", index=False)
    decoded().to_csv(tmp_path / "decoding.csv", index=False)
    assert module(*command).returncode == 0
    again = read_csv(made_files[0])
    assert set(again.loc[again["goal"] == 16, "outcome"]) == {"met"}
    mine = again["measured"] == "training"
    assert set(again.loc[mine, "note"]) == {f"trained at {COMMIT[:7]}"}
    # As it was recorded before it had a fingerprint.
    for table, name in ((trained(), "training"), (decoded(), "decoding")):
        table.drop(columns="kernel_sha256").to_csv(tmp_path / f"{name}.csv", index=False)
    assert module(*command).returncode == 0
    again = read_csv(made_files[0])
    assert set(again.loc[again["goal"] == 16, "outcome"]) == {"stale"}
    (tmp_path / "training.csv").write_text("a,b\n")
    untrained = module(*command)
    assert untrained.stdout.startswith(f"{tmp_path / 'training.csv'} is not a table")
    (tmp_path / "training.csv").unlink()
    (tidy_folder / "columns.csv").write_text("a,b\n")
    odd = module(*command)
    assert (odd.returncode, "Traceback" in odd.stdout) == (2, False)
    assert f"{tidy_folder / 'columns.csv'} is not a table of this project" in odd.stdout
    (tmp_path / "profile.csv").write_text("a,b\n")
    broken = module(*command)
    assert broken.returncode == 2
    assert broken.stdout.startswith(f"{tmp_path / 'profile.csv'} is not a table of this project")


def test_no_part_of_it_needs_torch():
    program = "import sys; import experiments.goals; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
