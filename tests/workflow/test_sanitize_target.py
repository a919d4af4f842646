"""`snakemake sanitize`: made where there are a GPU and the tool, the archive's table elsewhere."""

from pathlib import Path

import pytest

from experiments.listing import digest
from experiments.sanitizer import NAMES
from tests.experiments.watched import sanitized
from tests.workflow.checkout import snakemake
from tests.workflow.recorded import GPU, SOURCE, forget
from workflow.tables import SANITIZER

CONFIG = ["--config", f"source={SOURCE}"]


def test_the_archived_table_is_printed_and_a_finding_fails(copy: Path):
    done = snakemake(copy, "sanitize", *CONFIG)
    assert done.returncode == 0, done.stdout
    assert "| racecheck | chunks |" in done.stdout
    assert "| racecheck | columns |" in done.stdout
    assert f"{3 * len(NAMES)} of {3 * len(NAMES)} runs are clean." in done.stdout
    assert (copy / "results" / SOURCE / "sanitizer.log").exists()
    archive = copy / "experiments" / "archive" / GPU
    before = digest(archive / SANITIZER[0])
    sanitized(found_in=["cluster"]).to_csv(archive / SANITIZER[0], index=False)
    listing = archive / "SHA256SUMS"
    listing.write_text(listing.read_text().replace(before, digest(archive / SANITIZER[0])))
    found = snakemake(copy, "sanitize", *CONFIG)
    assert found.returncode != 0
    assert "Barrier error detected. Invalid arguments" in found.stdout
    assert f"{3 * len(NAMES) - 3} of {3 * len(NAMES)} runs are clean." in found.stdout


def test_an_archive_without_it_is_named_in_one_sentence(copy: Path):
    forget(copy, *SANITIZER)
    done = snakemake(copy, "sanitize", *CONFIG)
    assert done.returncode != 0
    assert f"experiments/archive/{GPU} holds no sanitizer.csv" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.usefixtures("gpu")
def test_a_gpu_with_the_tool_makes_it_when_asked_and_for_the_archive(copy: Path, tools: Path):
    without = snakemake(copy, "--dry-run", "sanitize")
    assert without.returncode != 0
    assert "compute-sanitizer is not on PATH: install the CUDA toolkit" in without.stdout
    packed = snakemake(copy, "--dry-run", "archive")
    assert packed.returncode == 0, packed.stdout
    assert "rule sanitizer_table:" not in packed.stdout
    (tools / "compute-sanitizer").write_text("#!/bin/sh\nexit 1\n")
    (tools / "compute-sanitizer").chmod(0o755)
    for target in ("sanitize", "archive"):
        asked = snakemake(copy, "--dry-run", target)
        assert asked.returncode == 0, asked.stdout
        assert "rule sanitizer_table:" in asked.stdout
