"""What make hands to Snakemake is what Snakemake takes it for."""

import shlex
import subprocess
from pathlib import Path

import pytest

from workflow.targets import targets

ROOT = Path(__file__).parents[2]


def commands(*arguments: str) -> list[list[str]]:
    """The Snakemake commands of a make that runs nothing, with ``arguments``."""
    done = subprocess.run(
        ["make", "--dry-run", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = [shlex.split(line) for line in done.stdout.splitlines() if "bin/snakemake " in line]
    assert lines, done.stdout
    return lines


@pytest.mark.parametrize(
    ("goal", "asked"),
    [
        ("all", []),
        ("quick", []),
        ("smoke", ["smoke"]),
        ("report", ["report"]),
        ("release", []),
        ("figures", ["figures"]),
        ("vocab_scaling", ["vocab_scaling"]),
    ],
)
def test_snakemake_is_asked_for_the_target(goal: str, asked: list[str]):
    assert [targets(command) for command in commands(goal)] == [asked]


def test_arguments_reach_it():
    (command,) = commands("all", "ARGS=--config source=archive", "CORES=3")
    assert command[-2:] == ["--config", "source=archive"]
    assert command[command.index("--cores") + 1] == "3"
