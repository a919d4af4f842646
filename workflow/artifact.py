"""The tables of README.md, ARTIFACT.md and docs/ that hold what was measured, as Markdown.

From the archive (its benchmark files and samples) and docs/verdicts.md, which .ci/run compares
with what the archive says.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from experiments.claim import Claim, read_claims
from experiments.goal import FAMILY, goals
from experiments.own import PUBLICATION
from experiments.sweeps import SWEEPS
from experiments.tables import read_raw
from experiments.variation import variation
from experiments.verdict import VERDICTS
from figures import (
    FAMILY_FIGURES,
    FIGURES,
    OPERATOR_FIGURES,
    TABLE_FIGURES,
    TRANSFORMER_FIGURES,
)
from workflow import attention, commits, forward, minutes, tuned
from workflow.graph import rule_graph
from workflow.machine import DEFAULT_ARCHIVE, ROOT
from workflow.measured import operators, overview
from workflow.tables import PROFILE_FIGURES

ARCHIVE = ROOT / "experiments" / "archive" / DEFAULT_ARCHIVE
H100 = ARCHIVE.with_name("nvidia-h100-80gb-hbm3")
BOTH = {"H200": ARCHIVE, "H100": H100}
VERDICTS_FILE = ROOT / "docs" / "verdicts.md"
NONE = "–"


class BadVerdicts(ValueError):
    """docs/verdicts.md is not the table that the workflow writes; the message says what is."""


class Row(NamedTuple):
    """A claim in docs/verdicts.md: its value with its interval, its verdict and the whole cell."""

    statement: str
    condition: str
    value: str
    verdict: str
    told: str


class Experiment(NamedTuple):
    """One target: ``times`` names its benchmark file, ``makes`` its figures and files."""

    target: str
    needs: str
    makes: tuple[str, ...]
    times: str = ""


GPU, ABOVE = "GPU", "the above"
BY_NAME = f"{GPU}, asked for by name"
EXPERIMENTS = (
    *(
        Experiment(name, GPU, tuple(f for f, of in FIGURES.items() if of == name), name)
        for name in SWEEPS
        if name != "smoke"
    ),
    Experiment("profile", "GPU, `ncu`", PROFILE_FIGURES, "profile"),
    Experiment("sanitize", "GPU, `compute-sanitizer`", (), "sanitizer"),
    Experiment("transformer", BY_NAME, tuple(TRANSFORMER_FIGURES), "transformer"),
    Experiment("family", BY_NAME, (*OPERATOR_FIGURES, *FAMILY_FIGURES)),
    Experiment("figures", "the build; GPU: every sweep", ("resources", "regimes", *TABLE_FIGURES)),
    Experiment("paper", ABOVE, ("paper.pdf",)),
    Experiment("blog", ABOVE, ("blog.html",)),
    Experiment("report", ABOVE, ("report.html",)),
)


def verdicts(path: Path = VERDICTS_FILE) -> dict[str, Row]:
    """The verdicts in ``path`` by the claim's id.  Raises BadVerdicts."""
    found = {}
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells or not re.fullmatch(r"C\d+|G\d+\.\d+", cells[0]):
            continue
        word = re.match(r"\*\*(.+?)\*\*", cells[-1])
        if len(cells) != 7 or word is None or word[1] not in VERDICTS:
            raise BadVerdicts(f"{path}, {cells[0]}: expected seven cells that end with a verdict")
        found[cells[0]] = Row(cells[2], cells[4], cells[5], word[1], cells[6])
    known = [*(claim.id for claim in read_claims()), *own()]
    if missing := [name for name in known if name not in found]:
        raise BadVerdicts(
            f"{path} has no {', '.join(missing)}: snakemake --cores 1 claims --config "
            "source=archive, and copy its claims.md there"
        )
    return found


def decided_by(claim: Claim) -> str:
    """The experiment that decides ``claim``."""
    if claim.measure.kind == "traffic":
        return "profile"
    return claim.measure.sweep or "figures"


def own() -> dict[str, tuple[str, ...]]:
    """Our own claims by id: the experiments that decide each."""
    of = {
        "layouts": "figures", "sanitizer": "sanitize", "training": "transformer",
        "decoding": "transformer",
    }  # fmt: skip
    found: dict[str, dict[str, None]] = {}
    for goal in goals():
        name = "family" if goal.source.startswith(FAMILY) else of.get(goal.source, goal.source)
        found.setdefault(goal.claim, {})[name] = None
    return {claim: tuple(names) for claim, names in found.items()}


def claims_summary() -> str:
    """A row a publication: its claims, counted by verdict; then a row of our own."""
    rows, known = Counter(), verdicts()
    for claim in read_claims():
        rows[claim.publication, known[claim.id].verdict] += 1
    mine = Counter(known[name].verdict for name in own())
    words = [word for word in VERDICTS if mine[word] or any(key[1] == word for key in rows)]
    lines = []
    for publication in dict.fromkeys(claim.publication for claim in read_claims()):
        counts = [rows[publication, word] for word in words]
        lines.append([publication, str(sum(counts)), *(str(count or NONE) for count in counts)])
    totals = [sum(rows[key] for key in rows if key[1] == word) for word in words]
    lines.append(["all publications", str(sum(totals)), *(str(n or NONE) for n in totals)])
    counts = [str(mine[word] or NONE) for word in words]
    lines.append([f"our {PUBLICATION}", str(mine.total()), *counts])
    return table(["from", "claims", *words], lines)


def claims() -> str:
    """A row a claim: what it says, what decides it, and what the archive says of it."""
    known = verdicts()
    return table(
        ["id", "claim", "experiment", "holds if", "archive", "verdict"],
        (
            [
                *(claim.id, claim.statement, f"`{decided_by(claim)}`", claim.condition.text),
                *(known[claim.id].value, known[claim.id].told),
            ]
            for claim in read_claims()
        ),
    )


def own_claims() -> str:
    """The same of our own."""
    known = verdicts()
    return table(
        ["id", "claim", "experiments", "holds if", "archive", "verdict"],
        (
            [
                *(name, known[name].statement, ", ".join(f"`{target}`" for target in by)),
                *(known[name].condition, known[name].value, known[name].told),
            ]
            for name, by in own().items()
        ),
    )


def experiments() -> str:
    """A row an experiment: command, needs, minutes, results, claims, variation."""
    heads = ["command", "needs", "minutes", "makes", "decides", "expected variation"]
    deciders = {claim.id: decided_by(claim) for claim in read_claims()}
    known = verdicts()
    return table(heads, (_experiment(experiment, deciders, known) for experiment in EXPERIMENTS))


def _experiment(
    experiment: Experiment, deciders: Mapping[str, str], known: Mapping[str, Row]
) -> list[str]:
    published = [name for name, decider in deciders.items() if decider == experiment.target]
    mine = [name for name, by in own().items() if experiment.target in by]
    return [
        f"`snakemake --cores 1 {experiment.target}`",
        experiment.needs,
        took(experiment.times),
        ", ".join(f"`{name}`" for name in experiment.makes) or NONE,
        "; ".join(_told(names, known) for names in (published, mine) if names) or NONE,
        varies(experiment.target),
    ]


def _told(names: list[str], known: Mapping[str, Row]) -> str:
    """Some claims, and how many of them have which verdict."""
    counts = Counter(known[name].verdict for name in names)
    summary = ", ".join(f"{counts[word]} {word}" for word in VERDICTS if word in counts)
    return f"{', '.join(names)} ({summary})"


def sweep_minutes() -> str:
    """A row a timed part of a full run, and their sum."""
    names = [name for name in SWEEPS if took(name) != NONE]
    rows = [["checks and compilation", took("prepare")], *([f"`{n}`", took(n)] for n in names)]
    rows.append(["all of these", full()])
    rows += [[f"`{e.target}`, asked for by name", took(e.times)] for e in EXPERIMENTS
             if e.times in minutes.BY_NAME]  # fmt: skip
    return table(["part of a full run", f"minutes on {DEFAULT_ARCHIVE}"], rows)


def took(name: str) -> str:
    """Minutes of the benchmark file ``name``, or a dash."""
    found = minutes.minutes(ARCHIVE).get(name)
    return NONE if found is None else f"{found:.1f}"


def full() -> str:
    """Minutes of a full run."""
    return f"{minutes.full_run(ARCHIVE):.1f}"


@cache
def varies(sweep: str) -> str:
    """What ``sweep`` varies by, as the archive has it."""
    path = ARCHIVE / "raw" / f"{sweep}.csv.gz"
    if not path.exists():
        return NONE
    found = variation(read_raw(path))
    return f"± {found.processes:.1%} (noise {found.noise:.2%})"


def table(heads: list[str], rows: Iterable[list[str]]) -> str:
    """Markdown of rows whose cells are text."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# What documents may ask for between their markers.
BLOCKS: Mapping[str, Callable[[], str]] = {
    "attention": partial(attention.speeds, BOTH),
    "attention counts": partial(attention.counted, BOTH),
    "attention lengths": partial(attention.lengths, BOTH),
    "attention slowed": partial(attention.slowed, BOTH),
    "claims": claims,
    "claims summary": claims_summary,
    "experiments": experiments,
    "minutes": sweep_minutes,
    "operators": partial(operators, ARCHIVE),
    "operators of an H100": partial(operators, H100),
    "operators tuned": tuned.reached,
    "operators tuned at": tuned.runs,
    "overview of operators": partial(overview, BOTH),
    "own claims": own_claims,
    "commits of operators": partial(commits.of_operators, ARCHIVE),
    "commits of sweeps": partial(commits.of_forward, ARCHIVE),
    "forward goals": partial(forward.summary, BOTH),
    "forward places": partial(forward.places, ARCHIVE),
    "forward wide in Triton": partial(forward.wide_in_triton, ARCHIVE),
    "forward tuned in Triton": partial(forward.tuned_in_triton, ARCHIVE),
    "full minutes": full,
    "wide gradients": tuned.wide_gradients,
    "wide masks": tuned.wide_masks,
    "workflow": rule_graph,
}
