"""`snakemake transformer`: trained on a GPU, the archive's elsewhere, a tiny one on any machine."""

from pathlib import Path

import pandas as pd
import pytest

from experiments.listing import digest
from experiments.transformer.tables import SUMMARY
from figures import TRANSFORMER_FIGURES
from tests.experiments.trained import decoded, trained
from tests.workflow.checkout import snakemake
from tests.workflow.recorded import ARCHIVE, SOURCE

CONFIG = ["--config", f"source={SOURCE}"]
SUFFIXES = (".svg", ".png", ".pdf")


def record(root: Path) -> None:
    """As if the archive of the test GPU in ``root`` had been packed with the transformer."""
    archive = root / ARCHIVE
    trained().to_csv(archive / "training.csv", index=False)
    decoded().to_csv(archive / "decoding.csv", index=False)
    with (archive / "SHA256SUMS").open("a") as listing:
        for name in TRANSFORMER_FIGURES.values():
            listing.write(f"{digest(archive / name)}  {name}\n")


def drawn(folder: Path) -> set[str]:
    return {path.name for path in (folder / "figures").iterdir()}


def test_the_archived_tables_are_drawn_and_told(copy: Path):
    without = snakemake(copy, "-n", "figures", *CONFIG)
    assert "transformer" not in without.stdout
    record(copy)
    done = snakemake(copy, "transformer", *CONFIG)
    assert done.returncode == 0, done.stdout
    assert "| ours | 3 |" in done.stdout
    assert "| same |" in done.stdout
    made = copy / "results" / SOURCE
    assert drawn(made) == {f"{name}{s}" for name in TRANSFORMER_FIGURES for s in SUFFIXES}
    found = SUMMARY.validate(pd.read_csv(made / "transformer.csv"))
    assert found["verdict"].tolist() == ["reference"] * 3 + ["same"]
    shown = snakemake(copy, "-n", "figures", "--forceall", *CONFIG)
    assert f"results/{SOURCE}/figures/decoding.svg" in shown.stdout


def test_an_archive_without_them_is_named_in_one_sentence(copy: Path):
    done = snakemake(copy, "transformer", *CONFIG)
    assert done.returncode != 0
    assert f"{ARCHIVE} holds no training.csv and decoding.csv, and the transformer" in done.stdout
    assert "a tiny one proves the path on any machine: transformer_smoke" in done.stdout


def test_the_tiny_one_runs_without_a_gpu_and_is_not_made_twice(copy: Path):
    done = snakemake(copy, "transformer_smoke", *CONFIG)
    assert done.returncode == 0, done.stdout
    made = copy / "results" / "local-cpu"
    assert drawn(made) == {f"{name}{s}" for name in TRANSFORMER_FIGURES for s in SUFFIXES}
    assert "| ours | 1 |" in (made / "transformer.md").read_text()
    again = snakemake(copy, "transformer_smoke", *CONFIG)
    assert "Nothing to be done" in again.stdout


@pytest.mark.usefixtures("gpu")
def test_a_gpu_trains_it_when_asked_and_for_an_archive_that_has_it(copy: Path):
    asked = snakemake(copy, "--dry-run", "transformer")
    assert asked.returncode == 0, asked.stdout
    assert "rule transformer_tables:" in asked.stdout
    for target in ("archive", "figures"):
        other = snakemake(copy, "--dry-run", target)
        assert other.returncode == 0, other.stdout
        assert "rule transformer_tables:" not in other.stdout
    record(copy)
    packed = snakemake(copy, "--dry-run", "archive")
    assert packed.returncode == 0, packed.stdout
    assert "rule transformer_tables:" in packed.stdout
