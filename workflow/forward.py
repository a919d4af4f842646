"""The numbers of docs/frontier.md: where goals 1 to 5 are not met, and what is known of why.

From the archives, from what tuning tried, and from the code that is launched.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from experiments import attempts, tried
from experiments.estimate import NotApplicable
from experiments.goal import TILED, TRITON_FRONTIER, Goal, goals
from experiments.goals import Evidence, find, outcome
from experiments.layout import CONTIGUOUS, Place
from experiments.markdown import STALE, head, line
from experiments.outcomes import OUTCOMES
from experiments.tables import BadTable
from kernels.frontier.plans import NONE as NO_EDGES
from kernels.frontier.plans import VECTOR_BYTES
from kernels.frontier.select import DEFAULT, TABLES
from kernels.occupancy import WARP, blocks
from kernels.registry import DTYPES, ELEMENT_BYTES
from kernels.triton import _select as in_triton
from kernels.triton._rows import registers
from workflow.in_flight import ARCH, H200, served

Archives = Mapping[str, Path]  # by what people call the GPU

NONE = "–"
# What is asked of how many places, and the claims that it consists of.
GROUPS = {
    "1, copy at {} saturated places": ("G1.1", "G1.2", "G1.3", "G1.4", "G1.5"),
    "1, {} layouts off 16 bytes": ("G1.6",),
    "2, the best peer at {} places": ("G2.1", "G2.2"),
    "3, {} goals of few rows": ("G3.1", "G3.2"),
    "3, {} of one launch and one read": ("G3.3", "G3.4"),
    "4, one read and one write at {} places": ("G4.1",),
    "5, Triton at {} places": ("G5.1", "G5.2"),
}
CUDA, IN_TRITON = (1, 2, 3, 4), 5  # goals of the kernels in CUDA, and in Triton
TWICE = "G5.2"  # what is asked of wide rows in Triton
# As ncu names what warps wait for, and as people do.
WAITS = {"long_scoreboard": "memory", "not_selected": "its turn"}
PLACES = [
    "place", "goal: reached", "tuned at", "the fastest three in tuning",
    "the fastest of other regimes", "KB", "waves", "DRAM %", "issue slots %",
    "most warps wait for, %",
]  # fmt: skip
# The kernels in Triton that a row in one launch can have, and how the table calls them.
FORMS = {
    "grid (now)": (TRITON_FRONTIER,), "online": ("triton_online",), "tiled": TILED,
    "hybrid": ("triton_hybrid",),
}  # fmt: skip


class Judged(NamedTuple):
    """A goal, and what an archive says of it; ``outcome`` leaves out whether it is ``stale``."""

    goal: Goal
    value: float
    outcome: str
    stale: bool

    @property
    def told(self) -> str:
        """For people: the sweep or table, the value and what came of it."""
        mark = STALE * bool(self.stale)
        return f"`{self.goal.source}` {self.value:.3f} ({self.outcome}){mark}"


@cache
def evidence(archive: Path) -> Evidence:
    """What goals 1 to 5 are judged by, from the samples in ``archive``."""
    return Evidence.of(archive, _goals())


def _goals() -> list[Goal]:
    return [goal for goal in goals() if goal.number in (*CUDA, IN_TRITON)]


@cache
def judged(archive: Path) -> list[Judged]:
    """Goals 1 to 5 at every place of which ``archive`` has a number."""
    made = []
    for goal in _goals():
        try:
            found = find(goal, evidence(archive))
        except NotApplicable:
            continue
        word = outcome(goal, replace(found, stale=False))
        made.append(Judged(goal, found.value, word, found.stale))
    return made


def summary(archives: Archives) -> str:
    """What came of each group of goals, on each GPU."""
    lines = head(["goal", *archives])
    for words, claims in GROUPS.items():
        asked = sum(goal.claim in claims for goal in _goals())
        lines.append(line([words.format(asked), *(_came(a, claims) for a in archives.values())]))
    return "\n".join(lines)


def _came(archive: Path, claims: tuple[str, ...]) -> str:
    mine = [each for each in judged(archive) if each.goal.claim in claims]
    counts = Counter("stale" if each.stale else each.outcome for each in mine)
    return ", ".join(f"{counts[word]} {word}" for word in OUTCOMES if counts[word]) or "not yet"


def unmet(archive: Path) -> dict[Place, str]:
    """Where a goal of the CUDA kernels is missed or open, and what each sweep says of it there."""
    groups: dict[tuple[Place, str], list[Judged]] = {}
    for each in judged(archive):
        if each.goal.number in CUDA:
            place = Place(*each.goal.point, each.goal.place or CONTIGUOUS)
            groups.setdefault((place, each.goal.claim), []).append(each)
    told: dict[Place, list[str]] = {}
    for (place, claim), some in groups.items():
        if any(each.outcome != "met" for each in some):
            said = ", ".join(each.told for each in some)
            told.setdefault(place, []).append(f"{claim.removeprefix('G')}: {said}")
    return {place: "; ".join(said) for place, said in told.items()}


def places(archive: Path) -> str:
    """A row a place of ``unmet``: what was tried there, what is on its way, what ncu counted."""
    table = tried.read(tried.beside(TABLES / f"{DEFAULT}.json"))
    profile = _profile(archive)
    lines = head(PLACES)
    for place, reached in unmet(archive).items():
        found, here = attempts.tried_at(place, table), served(place)
        lines.append(
            line([
                place.told, reached, attempts.tuned_at(found), *attempts.fastest(place, found),
                here.kilobytes, f"{here.waves:.{2 if here.waves < 1 else 0}f}",
                *_counted(profile, place),
            ])
        )  # fmt: skip
    return "\n".join(lines)


def _profile(archive: Path) -> pd.DataFrame:
    found = evidence(archive).tables["profile"]
    if found is None:
        raise BadTable(f"{archive} has no profile.csv, which docs/frontier.md tells of")
    return found


def counted_at(profile: pd.DataFrame, place: Place) -> dict[str, Any] | None:
    """The counts of the frontier at ``place``; None where ncu did not watch it."""
    at = (profile[["dtype", "rows", "cols", "layout"]] == [*place]).all(axis=1)
    rows = profile[at & (profile["variant"] == "frontier") & (profile["status"] == "ok")]
    return rows.to_dict("records")[0] if len(rows) else None


def _counted(profile: pd.DataFrame, place: Place) -> Iterator[str]:
    row = counted_at(profile, place)
    if row is None:
        yield from ["not counted", NONE, NONE]
        return
    yield f"{row['dram_throughput_pct']:.0f}{STALE * bool(row['stale'])}"
    yield f"{row['issue_pct']:.0f}"
    waits = WAITS.get(row["stall"], row["stall"].replace("_", " "))
    yield f"{waits}, {row['stall_pct']:.0f}"


def wide_in_triton(archive: Path) -> str:
    """A row a width at which Triton is not twice as fast as what came before, its dtypes in order.

    What each of its forms reached, what is on its way, and what ncu counted.
    """
    recorded, profile = evidence(archive).sweeps["vocab_scaling"], _profile(archive)
    assert recorded is not None
    lines = head([
        "columns, in Triton", "over what came before", *FORMS, "KB", "waves", "DRAM %", "issue %",
        "waiting %",
    ])  # fmt: skip
    for cols, ratios in _short_in_triton(archive).items():
        table = recorded.table[recorded.table["cols"] == cols].set_index("dtype")
        cells = [f"{cols:,}", _each(f"{ratios[dtype]:.2f}" for dtype in DTYPES)]
        for names in FORMS.values():
            some = table.loc[table["variant"].isin(names), "fraction_of_copy"]
            best = some.groupby(level="dtype").max()
            cells.append(_each(f"{best[dtype]:.3f}" for dtype in DTYPES))
        cells.append(_each(str(_in_triton(dtype, cols)) for dtype in DTYPES))
        mine = profile[(profile["variant"] == TRITON_FRONTIER) & (profile["cols"] == cols)]
        most = mine.loc[mine.groupby("dtype")["rows"].idxmax()].set_index("dtype")
        for column in ("waves", "dram_throughput_pct", "issue_pct", "stall_pct"):
            cells.append(_each(f"{most.loc[dtype, column]:.0f}" for dtype in DTYPES))
        lines.append(line(cells))
    return "\n".join(lines)


def _short_in_triton(archive: Path) -> dict[int, dict[str, float]]:
    """By columns, where a dtype misses it, and dtype."""
    mine = [each for each in judged(archive) if each.goal.claim == TWICE]
    short = sorted({each.goal.point.cols for each in mine if each.outcome != "met"})
    return {
        cols: {each.goal.point.dtype: each.value for each in mine if each.goal.point.cols == cols}
        for cols in short
    }


def _each(cells: Iterable[str]) -> str:
    return ", ".join(cells)


def _in_triton(dtype: str, cols: int) -> int:
    """KB that the programs of a multiprocessor have on their way, where a row is dealt out."""
    dealt = chosen_in_triton(dtype, cols).dealt
    _, share = dealt.deal(cols, ELEMENT_BYTES[dtype], edges=False)
    bound = registers(dealt.warps, dealt.programs)
    fit = blocks(ARCH, WARP * dealt.warps, bound, shared_bytes=0)
    return round(fit * share * VECTOR_BYTES / 1024)


def chosen_in_triton(dtype: str, cols: int) -> in_triton.Shape:
    """What an H200 launches for many rows of ``cols``, which are whole vectors."""
    asked = in_triton.Request(
        dtype, cols, edges=False, multiprocessors=H200.multiprocessors, threads=2048
    )
    return in_triton.select(asked, DEFAULT)


def tuned_in_triton(archive: Path) -> str:
    """The fastest shapes that were tried for those, and what is chosen, if it is none of them."""
    found = tried.read(tried.beside(in_triton.TABLES / f"{DEFAULT}.json"))
    lines = head(["columns", *DTYPES])
    serving = {
        int(tried.at(found, dtype, NO_EDGES, 1, cols)["cols"].iloc[0])
        for dtype, cols in product(DTYPES, _short_in_triton(archive))
    }
    for cols in sorted(serving):
        lines.append(line([f"{cols:,}", *(_three(found, dtype, cols) for dtype in DTYPES)]))
    return "\n".join(lines)


def _three(found: pd.DataFrame, dtype: str, cols: int) -> str:
    some = tried.at(found, dtype, NO_EDGES, 1, cols).reset_index(drop=True)
    chosen = chosen_in_triton(dtype, cols)
    parts = zip(some["regime"], some["sizes"].map(tuple), some["raw"], strict=True)
    now = pd.Series([in_triton.Shape(*each) == chosen for each in parts])
    best = some[now | (some.index < attempts.BEST)]
    sizes = best["sizes"].map(lambda sizes: "x".join(map(str, sizes)))
    shapes = (best["regime"] + " " + sizes).str.strip()
    return ", ".join(
        shapes + now[best.index].map({True: " (now) ", False: " "})
        + best["fraction_of_copy"].map("{:.3f}".format)
    )  # fmt: skip
