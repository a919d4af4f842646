"""`snakemake agreement`, and figures: a run measured here lies beside the archive, and over it."""

import json
from pathlib import Path

import pytest

from experiments.tables import read_raw
from experiments.tidy import tidy
from tests.experiments.test_agreement import written
from tests.workflow.checkout import snakemake
from tests.workflow.recorded import ARCHIVE, GPU, SOURCE, forget
from workflow.source import Source
from workflow.tables import agreement

CONFIG = ["--config", f"source={SOURCE}"]
LOCAL = f"local-{GPU}"
ENTRY = "<!-- Test GPU, archived -->"


@pytest.mark.usefixtures("gpu", "tools")
def test_a_gpu_is_compared_by_default_and_reported(copy: Path):
    for target in ((), ("agreement",), ("report",)):
        done = snakemake(copy, "--dry-run", *target)
        assert done.returncode == 0, done.stdout
        assert f"output: results/{LOCAL}/agreement.md" in done.stdout
        for judged in ("claims", "goals"):
            assert f"results/{SOURCE}/{judged}.csv" in done.stdout
        assert (f"results/{LOCAL}/pages/agreement.html" in done.stdout) == (
            target != ("agreement",)
        )


@pytest.mark.usefixtures("gpu", "tools")
def test_one_sweep_lies_over_its_own_archive_alone(copy: Path):
    done = snakemake(copy, "--dry-run", "topk")
    assert done.returncode == 0, done.stdout
    assert f"results/{SOURCE}/tidy/topk.csv" in done.stdout
    assert done.stdout.count("rule tidy:") == 2
    assert "agreement.md" not in done.stdout
    forget(copy, "raw/topk.csv.gz")
    younger = snakemake(copy, "--dry-run", "topk")
    assert younger.returncode == 0, younger.stdout
    assert younger.stdout.count("rule tidy:") == 1


def test_an_archive_has_nothing_beside_it(copy: Path):
    done = snakemake(copy, "--dry-run", *CONFIG)
    assert done.returncode == 0, done.stdout
    assert "agreement" not in done.stdout
    refused = snakemake(copy, "agreement", *CONFIG)
    assert refused.returncode != 0
    assert "agreement sets a run measured on this machine's GPU beside an archive" in refused.stdout
    assert "Traceback" not in refused.stdout
    assert agreement(Source(SOURCE, GPU, local=False)) == []


def test_the_page_is_made_of_both_verdicts(copy: Path):
    here, there = (copy / "results" / name for name in (LOCAL, SOURCE))
    here.parent.mkdir()
    written(here, LOCAL, 0)
    written(there, SOURCE, 1)
    done = snakemake(copy, f"results/{LOCAL}/agreement.md", *CONFIG, "--allowed-rules", "compare")
    assert done.returncode == 0, done.stdout
    text = (here / "agreement.md").read_text()
    assert text.startswith(f"What {LOCAL} says, beside {SOURCE}.")
    assert "They differ on C02, C03." in text


def test_a_figure_of_a_rerun_shows_the_archive_and_the_archives_own_does_not(copy: Path):
    local = copy / "results" / LOCAL
    (local / "tidy").mkdir(parents=True)
    rerun = read_raw(copy / ARCHIVE / "raw" / "topk.csv.gz")
    rerun["time_ns"] *= 1.5
    tidy(rerun).to_csv(local / "tidy" / "topk.csv", index=False)
    facts = json.loads((copy / ARCHIVE / "hardware.json").read_text())
    (local / "hardware.json").write_text(json.dumps({**facts, "gpu": "Other GPU"}))
    figures = [f"results/{name}/figures/topk.svg" for name in (LOCAL, SOURCE)]
    rules = ("ingest_test_gpu", "tidy", "figure")
    done = snakemake(copy, *figures, *CONFIG, "--allowed-rules", *rules)
    assert done.returncode == 0, done.stdout
    over, alone = ((copy / figure).read_text() for figure in figures)
    assert ENTRY in over
    assert "Other GPU · local · " in over
    assert ENTRY not in alone
    assert "faint" not in alone
