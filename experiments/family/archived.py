"""The operators' samples in an archive: which are whole, of today's code, and may be kept."""

import json
import re
from pathlib import Path
from typing import Any

from experiments import listing
from experiments.family import OPERATORS
from experiments.family.fingerprint import sha256_of
from experiments.family.operator import BLOCKS
from experiments.family.tables import read_raw
from experiments.hardware import environment_sha256, of_sweep
from experiments.tables import BadTable


def samples(operator: str) -> str:
    """The file of ``operator`` in a source's folder."""
    return f"family/raw/{operator}.csv.gz"


def key(operator: str) -> str:
    """Its name among the sweeps of an archive whose facts are of an earlier run."""
    return f"family/{operator}"


def measured(results: Path) -> list[str]:
    """The operators that a run has measured."""
    return [name for name in OPERATORS if (results / samples(name)).exists()]


def fault(path: Path, operator: str, facts: dict[str, Any]) -> str:
    """Why the samples in ``path`` are not to be archived with ``facts``; '' where they are.

    An archive holds every block, of one clean commit, of today's code, in the environment of its
    hardware.json.
    """
    try:
        raw = read_raw(path)
    except BadTable as error:
        return f"{path} is not a raw table of an operator: {error}: measure again"
    if (blocks := raw["block"].nunique()) < BLOCKS["full"]:
        return f"{path} holds {blocks} blocks; an archive holds {BLOCKS['full']}: finish the run"
    commits = sorted(set(raw["code_commit"]))
    if len(commits) != 1 or not re.fullmatch(r"[0-9a-f]{40}", commits[0]):
        found = ", ".join(commits)
        return f"{path} was measured at commit {found}; expected one clean commit: measure again"
    if set(raw["kernel_sha256"]) != {sha256_of(operator)}:
        return f"{path}: the code of {operator} has changed since: measure again"
    if set(raw["env_sha256"]) != {environment_sha256(facts)}:
        return f"{path} was measured in another environment than hardware.json tells of"
    return ""


def kept(folder: Path, results: Path, stale: bool) -> dict[str, dict[str, Any]]:
    """The facts of each operator of the archive ``folder`` that ``results`` lacks, by its key.

    Only of today's code, unless ``stale`` ones are kept too.  Raises BadArchive where a file is not
    what was recorded.
    """
    names = listing.sums(folder) if (folder / listing.SUMS).exists() else {}
    held = [n for n in OPERATORS if samples(n) in names and not (results / samples(n)).exists()]
    facts = json.loads((folder / "hardware.json").read_text()) if held else {}
    found = {key(name): of_sweep(facts, key(name)) for name in held}
    for name in held:
        path = listing.verify(folder, samples(name))
        if not stale and fault(path, name, found[key(name)]):
            del found[key(name)]
    return found
