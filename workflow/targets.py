"""Targets as the command line names them."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from snakemake.cli import get_argument_parser
from snakemake.exceptions import WorkflowError


def check_targets(command: Sequence[str], known: Iterable[str]) -> None:
    """Raise WorkflowError for a word in a snakemake ``command`` that no rule is called by.

    Paths are left to Snakemake, and so are commands that are not its own.
    """
    if Path(command[0]).name not in ("snakemake", "__main__.py"):
        return
    arguments, _ = get_argument_parser().parse_known_args(command[1:])
    names = sorted(known)
    for target in arguments.targets or ():
        if "/" not in target and target not in names:
            raise WorkflowError(f"unknown target '{target}'; known: {', '.join(names)}")


def failures(resources: Path) -> list[str]:
    """The variants that a resources.csv reports as failed."""
    with resources.open(newline="") as file:
        return sorted({r["variant"] for r in csv.DictReader(file) if r["status"] == "failed"})
