"""`snakemake goals`: of an archive from what it holds, of a local run with its layouts measured."""

from pathlib import Path

import pandas as pd
import pytest

from tests.workflow.checkout import snakemake
from tests.workflow.recorded import GPU, SOURCE, forget
from workflow import source
from workflow.source import Source
from workflow.tables import LAYOUTS, measured_layouts

CONFIG = ["--config", f"source={SOURCE}"]


def test_an_older_archive_leaves_goals_unknown(copy: Path):
    sweeps = [p.name for p in (copy / "experiments" / "archive" / GPU / "raw").iterdir()]
    kept = ("few_rows.csv.gz",)
    raw = [f"raw/{name}" for name in sweeps if name not in kept]
    forget(copy, *raw, LAYOUTS, "sanitizer.csv", "sanitizer.log", "profile.csv")
    done = snakemake(copy, "goals", *CONFIG)
    assert done.returncode == 0, done.stdout
    made = copy / "results" / SOURCE
    assert (made / "goals.md").read_text() in done.stdout
    table = pd.read_csv(made / "goals.csv")
    known = table["measured"] == "few_rows"
    assert not (table.loc[known, "outcome"] == "unknown").any()
    assert set(table.loc[~known, "outcome"]) == {"unknown"}


@pytest.mark.usefixtures("gpu", "tools")
def test_a_gpu_measures_its_layouts(copy: Path):
    done = snakemake(copy, "--dry-run", "goals")
    assert done.returncode == 0, done.stdout
    assert "rule layouts_table:" in done.stdout
    assert "rule sanitizer_table:" not in done.stdout


def test_layouts_are_measured_for_the_run_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(source, "ARCHIVES", tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "SHA256SUMS").write_text(f"{'0' * 64}  {LAYOUTS}\n")
    run = Source("local-a", "a", local=True)
    assert measured_layouts("local-a", run) == ["results/local-a/layouts.csv"]
    assert measured_layouts("archive-a", run) == ["results/archive-a/layouts.csv"]
    assert measured_layouts("local-b", run) == []
