"""docs/frontier.md tells of each place that misses a goal what the records and the code say."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest

from experiments import attempts, tried
from experiments.counts import read_beside
from experiments.goal import TILED, Goal, goals
from experiments.goals import Evidence, find, outcome, with_rivals
from experiments.launches import Gpu, widest_dealt
from experiments.layout import BY_NAME, CONTIGUOUS, Place
from experiments.recorded import recorded_sweep
from experiments.sanitizer import OPERATORS
from experiments.tables import LAYOUTS, PROFILE, SANITIZER
from kernels.compiled import Job
from kernels.frontier.compiler import compile_plan
from kernels.frontier.plans import (
    ALIKE,
    APART,
    LINE,
    NONE,
    REGIMES,
    VECTOR_BYTES,
    Plan,
    staged_bytes,
    tile_rows,
)
from kernels.frontier.select import DEFAULT, TABLES, Request, select
from kernels.occupancy import blocks
from kernels.registry import DTYPES, ELEMENT_BYTES, ROOT
from kernels.triton import _select as in_triton
from kernels.triton._rows import registers

MULTIPROCESSORS = 132
STREAMED = 4  # vectors of a thread at once (stream.cu)
ROW = re.compile(
    r"\| (\w+) \| (\w+)(, sliced)? \| (many|[\d,]+) x ([\d,]+) \| ([^|]+) \| (\d+) \| (\d+) \|"
)
TEXT = Path(ROOT.parent, "docs/frontier.md").read_text()
README = Path(ROOT.parent, "README.md").read_text()
ROWS = [found.groups() for line in TEXT.splitlines() if (found := ROW.match(line))]
# Places that miss a goal, one by one, and those that none judges: where, what is reached, ...
MISSED, UNJUDGED = "| place by place |", "| no goal judges |"
TRITON = "Triton"
# Of Triton's that miss a goal: columns, what each form reached, KB, waves, DRAM, issue, barriers;
# and the three fastest shapes of the widths that were tuned.
WIDE, TUNED = "| columns, in Triton |", "| columns | float32 | float16 | bfloat16 |"
FORMS = (("triton_frontier",), ("triton_online",), TILED, ("triton_hybrid",))
ARCHIVE = ROOT.parent / "experiments" / "archive" / DEFAULT
COUNTED = {"layouts": LAYOUTS, "profile": PROFILE}
WAITS = {"long_scoreboard": "memory", "barrier": "barrier", "not_selected": "its turn"}


class Judged(NamedTuple):
    """A goal, and what the archive's rows say of it, whether today's code is theirs or not."""

    goal: Goal
    value: float
    outcome: str


@cache
def evidence() -> Evidence:
    """What goals 1 to 5 are judged by."""
    names = {goal.source for goal in goals() if goal.number <= 5} - {*COUNTED}
    sweeps = {name: recorded_sweep(name, ARCHIVE / "raw", None) for name in names}
    tables = {name: read_beside(ARCHIVE / f"{name}.csv", COUNTED[name]) for name in COUNTED}
    return Evidence({name: with_rivals(found) for name, found in sweeps.items() if found}, tables)


@cache
def judged() -> list[Judged]:
    """Goals 1 to 5 at every place."""
    found = [(goal, find(goal, evidence())) for goal in goals() if goal.number <= 5]
    return [Judged(g, each.value, outcome(g, replace(each, stale=False))) for g, each in found]


def missed(some: list[Judged]) -> bool:
    """Whether one of them is missed or open."""
    return any(each.outcome != "met" for each in some)


@cache
def unmet() -> dict[Place, str]:
    """Where a goal of the CUDA kernels is not met, and what each sweep says of it there."""
    groups: dict[tuple[Place, str], list[Judged]] = {}
    for each in judged():
        if each.goal.number < 5:
            place = Place(*each.goal.point, each.goal.place or CONTIGUOUS)
            groups.setdefault((place, each.goal.claim), []).append(each)
    told: dict[Place, str] = {}
    for (place, claim), some in groups.items():
        if missed(some):
            said = (f"`{e.goal.source}` {e.value:.3f} ({e.outcome})" for e in some)
            assert place not in told
            told[place] = f"{claim.removeprefix('G')}: {', '.join(said)}"
    return told


def named(place: Place) -> str:
    """As tables name it."""
    layout = "" if place.layout == CONTIGUOUS else f", {place.layout}"
    return f"{place.dtype} {place.rows:,} x {place.cols:,}{layout}"


def rows_below(head: str) -> list[list[str]]:
    """The rows of the table that begins with ``head``, in cells."""
    return [cells(line) for line in TEXT[TEXT.index(head) :].split("\n\n")[0].splitlines()[2:]]


def cells(line: str) -> list[str]:
    """Those of a line of a table."""
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def number_of(text: str) -> int:
    """1048576 of 1,048,576."""
    return int(text.replace(",", ""))


def test_every_regime_is_told():
    assert {row[0] for row in ROWS} == set(REGIMES)


def test_every_place_that_misses_a_goal_is_told_with_its_evidence():
    rows = rows_below(MISSED)
    wanted = [[named(place), *cells_of(place, reached)] for place, reached in unmet().items()]
    assert sorted(rows) == sorted(wanted)


def cells_of(place: Place, reached: str) -> list[str]:
    """Reached, the fastest that were tried, KB on their way, waves, and what was counted."""
    dtype, rows, cols, layout = place
    where = dtype, ", sliced" if layout == "sliced input" else None, f"{rows:,}", f"{cols:,}"
    (kilobytes,) = {row[-1] for row in ROWS if row[1:5] == where}
    made = compiled(*where)
    number = launched(made.plan, rows)
    waves = number / (made.fit * MULTIPROCESSORS)
    profile = evidence().tables["profile"]
    assert profile is not None
    at = (profile[["dtype", "rows", "cols", "layout"]] == [*place]).all(axis=1)
    (row,) = profile[at & (profile["variant"] == "frontier")].to_dict("records")
    assert (row["grid_size"], row["waves"]) == (number, pytest.approx(waves, abs=0.006))
    waits = f"{WAITS[row['stall']]}, {row['stall_pct']:.0f}"
    seen = [f"{row['dram_throughput_pct']:.0f}", f"{row['issue_pct']:.0f}", waits]
    now, at, *best = tuned()[named(place)]
    assert best[0].startswith(f"{now} ")
    assert at.endswith("9d8b575" if place.cols >= 262_144 else "e6921d7")  # as the text says
    return [reached, *best, kilobytes, f"{waves:.{2 if waves < 1 else 0}f}", *seen]


@cache
def tuned() -> dict[str, list[str]]:
    """By place: what serves it, of which run, the fastest three, and those of other regimes."""
    places = [
        {"goal": 1, "outcome": "missed", "place": place.layout.replace(CONTIGUOUS, ""),
         **place.point._asdict(), "value": 0.0, "statement": ""} for place in unmet()
    ]  # fmt: skip
    table = tried.read(tried.beside(TABLES / f"{DEFAULT}.json"))
    gpu = attempts.On.of(DEFAULT, ARCHIVE / "hardware.json")
    lines = attempts.told(pd.DataFrame(places), table, gpu).splitlines()
    rows = [cells(line) for line in lines if line.startswith("| ")][2:]
    return {where: told for where, _, *told in rows}


def launched(plan: Plan, rows: int) -> int:
    """Blocks, as frontier.py launches them."""
    shape = plan.shape
    match shape.regime:
        case "warp":
            return -(-rows // (plan.threads // shape.sizes[0] * shape.together))
        case "cluster" | "staged" | "grid":
            return rows * shape.sizes[1]
    assert shape.regime == "chunks"
    return MULTIPROCESSORS


def test_places_that_no_goal_judges_have_on_their_way_what_the_table_of_theirs_says():
    ours = [row[3] for row in rows_below(UNJUDGED) if not row[0].startswith(TRITON)]
    told = [number for cell in ours for number in cell.split(", ")]
    assert told == [row[-1] for row in ROWS[-len(told) :]]


def test_wide_rows_in_triton_are_told_with_their_evidence():
    recorded, profile = evidence().sweeps["vocab_scaling"], evidence().tables["profile"]
    assert recorded is not None
    assert profile is not None
    ours = [each for each in judged() if each.goal.claim == "G5.2"]
    short = sorted({each.goal.point.cols for each in ours if missed([each])})
    rows = rows_below(WIDE)
    assert [row[0] for row in rows] == [f"{cols:,}" for cols in short]
    for (_, ratios, *forms, kilobytes, waves, dram, issue, waiting), cols in zip(
        rows, short, strict=True
    ):
        by_dtype = {
            each.goal.point.dtype: each.value for each in ours if each.goal.point.cols == cols
        }
        assert ratios == ", ".join(f"{by_dtype[dtype]:.2f}" for dtype in DTYPES)
        table = recorded.table[recorded.table["cols"] == cols].set_index("dtype")
        for names, told in zip(FORMS, forms, strict=True):
            some = table.loc[table["variant"].isin(names), "fraction_of_copy"]
            best = some.groupby(level="dtype").max()
            assert told == ", ".join(f"{best[dtype]:.3f}" for dtype in DTYPES)
        counted = profile[(profile["variant"] == FORMS[0][0]) & (profile["cols"] == cols)]
        most = counted.loc[counted.groupby("dtype")["rows"].idxmax()].set_index("dtype")
        assert set(most["stall"]) == {"barrier"}
        counts = {
            "waves": waves, "dram_throughput_pct": dram, "issue_pct": issue, "stall_pct": waiting,
        }  # fmt: skip
        for column, told in counts.items():
            assert told == ", ".join(f"{most.loc[dtype, column]:.0f}" for dtype in DTYPES)
        for dtype, told in zip(DTYPES, kilobytes.split(", "), strict=True):
            asked = in_triton.Request(dtype, cols, edges=False, multiprocessors=MULTIPROCESSORS,
                                      threads=2048)  # fmt: skip
            dealt = in_triton.select(asked, DEFAULT).dealt
            _, share = dealt.deal(cols, asked.size, edges=False)
            bound = registers(dealt.warps, dealt.programs)
            fit = blocks("sm_90", 32 * dealt.warps, bound, shared_bytes=0)
            assert (fit, round(fit * share * VECTOR_BYTES / 1024)) == (dealt.programs, int(told))


def test_the_fastest_of_what_triton_tried_are_told():
    found = tried.read(tried.beside(in_triton.TABLES / f"{DEFAULT}.json"))
    rows = rows_below(TUNED)
    assert len(rows) == 2
    for columns, *told in rows:
        cols = number_of(columns)
        for dtype, cell in zip(DTYPES, told, strict=True):
            best = tried.at(found, dtype, NONE, 1, cols).head(attempts.BEST)
            assert set(best["cols"]) == {cols}
            assert set(best["regime"]) == {"grid"}
            shapes = best["sizes"].map(lambda sizes: "x".join(map(str, sizes)))
            fractions = best["fraction_of_copy"].map("{:.3f}".format)
            assert cell == ", ".join(shapes + " " + fractions)
            asked = in_triton.Request(dtype, cols, edges=False, multiprocessors=MULTIPROCESSORS,
                                      threads=2048)  # fmt: skip
            assert in_triton.select(asked, DEFAULT).sizes == tuple(best["sizes"].iloc[0])


def test_the_widths_at_which_operators_were_watched_are_told():
    watched = read_beside(ARCHIVE / "sanitizer.csv", SANITIZER)
    most = watched.groupby("regime")["most_cols"].max()
    for name in OPERATORS:
        assert f"`{name}` {most[name]:,}" in TEXT
    assert f"the operators' to {most[[*OPERATORS]].max():,}" in README


def test_the_widest_rows_that_are_dealt_out_are_told():
    for dtype, cell in (("float32", "float32 columns"), ("bfloat16", "of 16 bits")):
        whole, apart = (
            widest_dealt(dtype, BY_NAME[layout], Gpu(DEFAULT, 90, MULTIPROCESSORS))[0] / 1e6
            for layout in (CONTIGUOUS, "sliced input")
        )
        assert f"{whole:.2f} million {cell}" in TEXT
        assert f"{apart:.2f}" in TEXT


class Compiled(NamedTuple):
    """A plan, how many of its blocks fit a multiprocessor, and the most bytes that one loads."""

    plan: Plan
    fit: int
    of_block: float


def compiled(dtype: str, sliced: str | None, rows: str, columns: str) -> Compiled:
    """What serves rows that a table names so."""
    size, cols = ELEMENT_BYTES[dtype], number_of(columns)
    edges = APART if sliced else ALIKE if cols * size % VECTOR_BYTES else NONE
    asked = Request(
        dtype, 10**6 if rows == "many" else number_of(rows), cols, edges,
        contiguous=not sliced,
        lines=edges == NONE and cols * size % (LINE * VECTOR_BYTES) == 0, arch=90,
        multiprocessors=MULTIPROCESSORS,
    )  # fmt: skip
    shape = select(asked, DEFAULT)
    plan = shape.plan(cols, size, asked.edges)
    used = compile_plan(plan, Job("frontier", dtype, "sm_90")).kernels[0].resources
    assert used.registers is not None
    assert used.static_shared_bytes is not None
    shared = used.static_shared_bytes + plan.ring_bytes
    of_block, row = plan.threads * plan.held * shape.together * VECTOR_BYTES, cols * size
    match shape.regime:
        case "tile":
            of_block = tile_rows(shape, cols, size) * row
            shared += of_block + VECTOR_BYTES
        case "block":
            of_block = min(of_block, row)
        case "cluster" | "grid":
            of_block = min(of_block, row / shape.sizes[1])
        case "staged":
            of_block = row / shape.sizes[1]
            shared += staged_bytes(shape, cols, size, asked.edges)
        case "chunks":
            of_block = shape.sizes[0] * shape.sizes[6] * VECTOR_BYTES
        case "stream":
            of_block = plan.threads * STREAMED * VECTOR_BYTES
    return Compiled(plan, blocks("sm_90", plan.threads, used.registers, shared), of_block)


@pytest.mark.parametrize(
    ("regime", "dtype", "sliced", "rows", "columns", "label", "fit", "kilobytes"), ROWS
)
def test_bytes_on_their_way_are_those_of_the_compiled_kernel(
    regime: str, dtype: str, sliced: str | None, rows: str, columns: str, label: str, fit: str,
    kilobytes: str,
):  # fmt: skip
    plan, found, of_block = compiled(dtype, sliced, rows, columns)
    assert plan.label == f"{regime} {label}"
    if regime in ("cluster", "grid"):  # as many as there are
        there = 10**6 if rows == "many" else number_of(rows)
        found = min(found, -(-there * plan.shape.sizes[1] // MULTIPROCESSORS))
    assert (found, round(found * of_block / 1024)) == (int(fit), int(kilobytes))
