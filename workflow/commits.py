"""Of which commits an archive's tables are, as documents say it."""

from collections.abc import Mapping
from pathlib import Path

from experiments.family.archived import measured, samples
from experiments.family.counts import FILE
from experiments.goal import COMPARED
from experiments.goals import TABLES
from experiments.tables import read_csv

SHORT = 7  # of a commit's digits


def of_forward(archive: Path) -> str:
    """What the forward kernels are judged by: sweeps, layouts, counts, the sanitizer."""
    files = {name: archive / "raw" / f"{name}.csv.gz" for name in COMPARED}
    return told(files | {name: archive / f"{name}.csv" for name in TABLES})


def of_operators(archive: Path) -> str:
    """Every operator's samples, and what was counted of them."""
    files = {name: archive / samples(name) for name in measured(archive)}
    return told(files | {"counts": archive / FILE})


def told(files: Mapping[str, Path]) -> str:
    """`a` and `b` of 1234567; `c` of 89abcde and 1234567: the commit of most rows first."""
    by: dict[str, list[str]] = {}
    for name, path in files.items():
        commits = read_csv(path)["code_commit"]
        counts = commits[commits != ""].value_counts()
        by.setdefault(_listed([c[:SHORT] for c in counts.index]), []).append(f"`{name}`")
    return "; ".join(f"{_listed(names)} of {commits}" for commits, names in by.items())


def _listed(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
