"""Targets as the command line names them."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from snakemake.cli import get_argument_parser
from snakemake.exceptions import WorkflowError

from experiments.sweeps import SWEEPS
from workflow.source import ROOT, Source


def check_targets(command: Sequence[str], known: Iterable[str], source: Source) -> None:
    """Raise WorkflowError for a word in a snakemake ``command`` that cannot be made.

    Paths are left to Snakemake, and so are commands that are not its own.
    """
    if Path(command[0]).name not in ("snakemake", "__main__.py"):
        return
    arguments, _ = get_argument_parser().parse_known_args(command[1:])
    names = sorted(known)
    for target in arguments.targets or ():
        if "/" not in target and target not in names:
            raise WorkflowError(f"unknown target '{target}'; known: {', '.join(names)}")
        if target in SWEEPS and target != "smoke" and not source.measures(target):
            held = ", ".join(name for name in SWEEPS if name != "smoke" and source.measures(name))
            raise WorkflowError(
                f"{source.archive.relative_to(ROOT)} holds no sweep '{target}', and there is no "
                f"GPU to measure it on, or --config source=archive; it holds: {held}"
            )
        if target == "archive" and not source.local:
            raise WorkflowError(
                "archive packs a full run measured here, and this run takes its data from "
                f"{source.archive.relative_to(ROOT)} already: it needs a GPU, and not "
                "--config source=archive"
            )


def failures(resources: Path) -> list[str]:
    """The variants that a resources.csv reports as failed."""
    with resources.open(newline="") as file:
        return sorted({r["variant"] for r in csv.DictReader(file) if r["status"] == "failed"})
