"""Targets as the command line names them."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from snakemake.cli import get_argument_parser
from snakemake.exceptions import WorkflowError

from experiments.sweeps import SWEEPS
from workflow.source import ROOT, Source
from workflow.tables import (
    PROFILE,
    SANITIZER,
    TRANSFORMER,
    agreement,
    drawn_operators,
    profiled,
    sanitized,
    transformed,
    unprofiled,
)


def targets(command: Sequence[str]) -> list[str]:
    """The targets that a snakemake ``command`` names; none of any other command."""
    if Path(command[0]).name not in ("snakemake", "__main__.py"):
        return []
    arguments, _ = get_argument_parser().parse_known_args(command[1:])
    return list(arguments.targets or ())


def check_targets(command: Sequence[str], known: Iterable[str], source: Source) -> None:
    """Raise WorkflowError for a word in a snakemake ``command`` that cannot be made.

    Paths are left to Snakemake, and so are commands that are not its own.
    """
    names = sorted(known)
    for target in targets(command):
        if "/" not in target and target not in names:
            raise WorkflowError(f"unknown target '{target}'; known: {', '.join(names)}")
        if target in SWEEPS and target != "smoke" and not source.measures(target):
            held = ", ".join(name for name in SWEEPS if name != "smoke" and source.measures(name))
            raise WorkflowError(
                f"{source.archive.relative_to(ROOT)} holds no sweep '{target}', and there is no "
                f"GPU to measure it on, or --config source=archive; it holds: {held}"
            )
        if target == "profile" and not profiled(source):
            folder = source.archive.relative_to(ROOT)
            raise WorkflowError(
                f"no profile: {unprofiled(source)}; {folder} holds no {PROFILE} yet"
            )
        if target == "family" and not drawn_operators(source):
            folder = source.archive.relative_to(ROOT)
            raise WorkflowError(
                f"{folder} holds no operators yet, and family needs a GPU to measure them; "
                "family_smoke tries their path without one"
            )
        if target == "sanitize" and not sanitized(source):
            folder = source.archive.relative_to(ROOT)
            raise WorkflowError(
                "compute-sanitizer is not on PATH: install the CUDA toolkit, or add its bin folder"
                if source.local
                else f"{folder} holds no {SANITIZER[0]}, and sanitize needs a GPU to make one"
            )
        if target == "transformer" and not transformed(source):
            raise WorkflowError(
                f"{source.archive.relative_to(ROOT)} holds no {' and '.join(TRANSFORMER)}, and the "
                "transformer is trained on a GPU, not with --config source=archive; a tiny one "
                "proves the path on any machine: transformer_smoke"
            )
        if target.startswith("tune") and not source.local:
            raise WorkflowError(
                f"{target} measures the frontier's kernels on this machine's GPU: it needs one, "
                "and not --config source=archive"
            )
        if target == "agreement" and not agreement(source):
            raise WorkflowError(
                "agreement sets a run measured on this machine's GPU beside an archive: it needs "
                "both, and not --config source=archive"
            )
        if target in ("archive", "update_archive") and not source.local:
            raise WorkflowError(
                f"{target} packs a full run measured here, and this run takes its data from "
                f"{source.archive.relative_to(ROOT)} already: it needs a GPU, and not "
                "--config source=archive"
            )


def stand_in(command: Sequence[str], source: Source) -> str:
    """What to say where ``command`` asks for a profile and another source's is drawn, or ''."""
    if "profile" not in targets(command) or not unprofiled(source):
        return ""
    other = profiled(source)
    drawn = f"that of {other} is drawn, in results/{other}/figures"
    return f"no profile of this run: {unprofiled(source)}; {drawn}"


def failures(resources: Path) -> list[str]:
    """The variants that a resources.csv reports as failed."""
    with resources.open(newline="") as file:
        return sorted({r["variant"] for r in csv.DictReader(file) if r["status"] == "failed"})
