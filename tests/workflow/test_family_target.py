"""`snakemake family`: all operators on a GPU, those recorded of an archive, and nothing else."""

import json
from pathlib import Path

import pandas as pd
import pytest

from experiments.family import OPERATORS
from experiments.family.archived import samples
from experiments.family.counts import FILE as COUNTS
from experiments.family.warm import WAITING
from experiments.hardware import environment_sha256
from experiments.listing import digest
from experiments.tables import write_raw
from figures import FAMILY_FIGURES
from tests.experiments.family.made import counts_of, errors_of, raw_of
from tests.workflow.checkout import snakemake
from tests.workflow.recorded import ARCHIVE, GPU, SOURCE
from tests.workflow.test_profile_target import install_ncu
from workflow.source import Source
from workflow.tables import (
    counted_operators,
    drawn_operators,
    operators_of,
    tidy_operators,
)

CONFIG = ["--config", f"source={SOURCE}"]
LOCAL = f"local-{GPU}"
SUFFIXES = ("svg", "png", "pdf")


def add(copy: Path, *names: str) -> None:
    """As if the archive had been packed with the operators ``names``."""
    archive = copy / ARCHIVE
    facts = json.loads((archive / "hardware.json").read_text())
    with (archive / "SHA256SUMS").open("a") as listing:
        for name in names:
            path = archive / samples(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_raw(raw_of(name, env_sha256=environment_sha256(facts)), path)
            listing.write(f"{digest(path)}  {samples(name)}\n")


def compare(copy: Path, *names: str) -> None:
    """As if the archive had been packed with the errors of the operators ``names``."""
    table, path = FAMILY_FIGURES["operator_accuracy"], copy / ARCHIVE / "family" / "accuracy.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    errors_of(*names).to_csv(path, index=False)
    with (copy / ARCHIVE / "SHA256SUMS").open("a") as listing:
        listing.write(f"{digest(path)}  {table}\n")


def count(copy: Path) -> None:
    """As if the archive had been packed with the operators' counts."""
    path = copy / ARCHIVE / COUNTS
    path.parent.mkdir(parents=True, exist_ok=True)
    counts_of().to_csv(path, index=False)
    with (copy / ARCHIVE / "SHA256SUMS").open("a") as listing:
        listing.write(f"{digest(path)}  {COUNTS}\n")


def test_an_archive_without_operators_is_named_in_one_sentence(copy: Path):
    done = snakemake(copy, "family", *CONFIG)
    assert done.returncode != 0
    assert f"experiments/archive/{GPU} holds no operators yet" in done.stdout
    assert "Traceback" not in done.stdout
    listed = snakemake(copy, "--dry-run", *CONFIG)
    assert listed.returncode == 0, listed.stdout
    assert "rule family" not in listed.stdout


def test_what_an_archive_holds_is_drawn_reported_and_judged(made: Path):
    add(made, "columns", "sample")
    without = snakemake(made, "--dry-run", "--forceall", "family", *CONFIG)
    assert without.returncode == 0, without.stdout
    assert "operator_accuracy" not in without.stdout
    assert "rule family_limits" not in without.stdout
    compare(made, "columns")
    count(made)
    done = snakemake(made, "family", "goals", *CONFIG)
    assert done.returncode == 0, done.stdout
    there = made / "results" / SOURCE
    drawn = {path.name for path in (there / "family" / "figures").iterdir()}
    assert drawn == {f"{n}.{s}" for n in ("columns", "sample") for s in SUFFIXES}
    assert all((there / "figures" / f"operator_accuracy.{s}").exists() for s in SUFFIXES)
    assert (there / COUNTS).exists()
    assert "| masks | causal |" in (there / "family" / "counts.md").read_text()
    table = pd.read_csv(there / "goals.csv")
    of_family = table[table["measured"].str.startswith("family/")]
    known = of_family["outcome"] != "unknown"
    assert set(of_family.loc[known, "measured"]) == {"family/columns", "family/sample"}
    listed = snakemake(made, "--dry-run", "--forceall", *CONFIG)
    assert f"results/{SOURCE}/family/figures/columns.svg" in listed.stdout
    assert f"results/{SOURCE}/family/figures/backward.svg" not in listed.stdout
    assert f"results/{SOURCE}/figures/operator_accuracy.svg" in listed.stdout


@pytest.mark.usefixtures("gpu", "tools")
def test_a_gpu_measures_them_when_asked_and_not_otherwise(copy: Path):
    asked = snakemake(copy, "--dry-run", "family")
    assert asked.returncode == 0, asked.stdout
    assert asked.stdout.count("rule family_measure:") >= len(OPERATORS)
    assert asked.stdout.count("checkpoint family_warm:") == 1
    assert asked.stdout.count("checkpoint family_once:") == len(WAITING)
    alone = snakemake(copy, "--dry-run", f"results/{LOCAL}/{samples('columns')}")
    assert "checkpoint family_warm:" in alone.stdout
    assert "checkpoint family_once:" not in alone.stdout  # no peer of it compiles for minutes
    assert asked.stdout.count("rule family_accuracy:") == 1
    assert "rule family_counts:" not in asked.stdout
    assert "rule measure:" not in asked.stdout
    for target in ((), ("archive",)):
        other = snakemake(copy, "--dry-run", *target)
        assert other.returncode == 0, other.stdout
        assert "rule family_measure:" not in other.stdout
        assert "rule family_accuracy:" not in other.stdout
    path = copy / "results" / LOCAL / samples("columns")
    path.parent.mkdir(parents=True)
    write_raw(raw_of("columns"), path)
    errors_of("columns").to_csv(path.parents[1] / "accuracy.csv", index=False)
    packed = snakemake(copy, "--dry-run", "archive")
    assert f"results/{LOCAL}/{samples('columns')}" in packed.stdout
    assert f"results/{LOCAL}/family/accuracy.csv" in packed.stdout


@pytest.mark.usefixtures("gpu")
def test_a_gpu_with_ncu_counts_when_asked_and_the_archive_takes_it(copy: Path, tools: Path):
    install_ncu(tools)
    for target in ("family", f"results/{LOCAL}/{COUNTS}"):
        asked = snakemake(copy, "--dry-run", target)
        assert asked.returncode == 0, asked.stdout
        assert asked.stdout.count("rule family_counts:") == 1
        assert asked.stdout.count("rule family_limits:") == (target == "family")
    for target in ((), ("archive",), ("profile",)):
        other = snakemake(copy, "--dry-run", *target)
        assert other.returncode == 0, other.stdout
        assert "rule family_counts:" not in other.stdout
    path = copy / "results" / LOCAL / COUNTS
    path.parent.mkdir(parents=True)
    counts_of().to_csv(path, index=False)
    packed = snakemake(copy, "--dry-run", "archive")
    assert f"results/{LOCAL}/{COUNTS}" in packed.stdout


def test_which_operators_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    run = Source("local-a", "a", local=True)
    assert drawn_operators(run) == list(OPERATORS)
    assert operators_of("local-a") == tidy_operators("local-a") == []
    path = tmp_path / "results" / "local-a" / samples("masks")
    path.parent.mkdir(parents=True)
    path.touch()
    assert operators_of("local-a") == ["masks"]
    assert tidy_operators("local-a") == ["results/local-a/family/tidy/masks.csv"]


def test_where_there_is_a_page_of_counts(tools: Path):
    run = Source("local-a", "a", local=True)
    assert counted_operators(run) == []
    install_ncu(tools)
    assert counted_operators(run) == ["results/local-a/family/counts.md"]
    h200 = Source("archive-nvidia-h200", "nvidia-h200", local=False)
    assert bool(counted_operators(h200)) == h200.holds(COUNTS)
