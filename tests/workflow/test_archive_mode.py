"""From a fresh checkout, an archive and no GPU to every figure; a damaged archive stops it."""

from pathlib import Path

import pandas as pd
import pytest

from experiments.sweeps import SWEEPS
from figures import FIGURES, TABLE_FIGURES
from tests.workflow.checkout import snakemake
from tests.workflow.recorded import GPU, LAUNCH_NS, SOURCE, forget
from workflow.tables import PROFILE_FIGURES

CONFIG = ["--config", f"source={SOURCE}"]


def test_every_figure_is_made(everything: Path):
    made = everything / "results" / SOURCE
    for figure, sweep in FIGURES.items():
        for suffix in ("svg", "png", "pdf"):
            assert (made / "figures" / f"{figure}.{suffix}").exists() == (sweep != "smoke")
    for figure in (*TABLE_FIGURES, *PROFILE_FIGURES):
        assert (made / "figures" / f"{figure}.png").exists()
    told = (made / "goals.md").read_text().splitlines()[0]
    assert told.startswith(f"Goals on {SOURCE}: ")
    assert "met" in told
    assert "cuda_warp_row" in (everything / "results" / "build" / "registers.md").read_text()
    for sweep in SWEEPS:
        assert (made / "tidy" / f"{sweep}.csv").exists() == (sweep != "smoke")

    table = pd.read_csv(made / "tidy" / "vocab_scaling.csv")
    assert not table["stale"].any()
    row = table.query("variant == 'torch_naive' and dtype == 'float32' and cols == 1024").iloc[0]
    # 2^27 elements of 4 bytes, 8 passes at 4 bytes a nanosecond; block 2 of 0 ... 4 is the median.
    assert row["median_us"] == pytest.approx((LAUNCH_NS + 2**30 / 1000 + 2) / 1e3)


def test_then_nothing_is_left_to_do_and_it_is_reported(made: Path, monkeypatch: pytest.MonkeyPatch):
    again = snakemake(made, *CONFIG)
    assert again.returncode == 0
    assert "Nothing to be done" in again.stdout

    # A report is made without a network: whoever asks for one meets a closed door.
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    reported = snakemake(made, "report", *CONFIG)
    assert reported.returncode == 0, reported.stdout
    assert f"report: results/{SOURCE}/report.html" in reported.stdout
    report = (made / "results" / SOURCE / "report.html").read_text()
    for figure in (*FIGURES, *TABLE_FIGURES, *PROFILE_FIGURES, "resources", "regimes"):
        shown = f"figures/{figure}.svg" in report
        assert shown == (figure != "smoke"), figure
    assert "a panel a dtype, where every tensor has the same bytes" in report
    assert f"results/{SOURCE}/pages/claims.html" in report


def test_one_sweep_by_name_makes_its_own_figures(copy: Path):
    done = snakemake(copy, "small_batch", *CONFIG)
    assert done.returncode == 0, done.stdout
    made = copy / "results" / SOURCE
    assert [path.name for path in (made / "tidy").iterdir()] == ["small_batch.csv"]
    drawn = {path.stem for path in (made / "figures").iterdir()}
    assert drawn == {name for name, sweep in FIGURES.items() if sweep == "small_batch"}


def test_a_damaged_file_stops_the_run_by_name(copy: Path):
    path = copy / "experiments" / "archive" / GPU / "raw" / "small_batch.csv.gz"
    path.write_bytes(path.read_bytes()[:-100])
    done = snakemake(copy, "small_batch", *CONFIG)
    assert done.returncode != 0
    assert f"archive/{GPU}/raw/small_batch.csv.gz differs from what was recorded" in done.stdout
    assert "cut off or damaged" in done.stdout
    assert not (copy / "results" / SOURCE / "raw" / "small_batch.csv.gz").exists()


def test_what_was_not_recorded_is_left_out_and_refused_by_name(copy: Path):
    forget(copy, "raw/worklog.csv.gz", "accuracy.csv", "profile.csv")
    listed = snakemake(copy, "-n", *CONFIG)
    assert listed.returncode == 0, listed.stdout
    assert "vocab_scaling" in listed.stdout
    assert f"results/{SOURCE}/figures/vocab_scaling.svg" in listed.stdout
    # Its file is an input of the claims, which know every sweep's points.
    assert "worklog" not in listed.stdout.replace("experiments/sweeps/worklog.py", "")
    assert "accuracy" not in listed.stdout
    assert "rule profile_figure" not in listed.stdout
    refused = snakemake(copy, "worklog", *CONFIG)
    assert refused.returncode != 0
    assert f"archive/{GPU} holds no sweep 'worklog'" in refused.stdout
    assert "it holds: vocab_scaling, batch_scaling" in refused.stdout


def test_an_archived_run_is_not_packed_again(copy: Path):
    done = snakemake(copy, "archive", *CONFIG)
    assert done.returncode != 0
    assert "archive packs a full run measured here" in done.stdout


@pytest.mark.parametrize("target", ["tune", "tune_table", "tune_triton", "tune_operators"])
def test_tuning_without_a_gpu_is_refused(copy: Path, target: str):
    done = snakemake(copy, target, *CONFIG)
    assert done.returncode != 0
    assert f"{target} measures the frontier's kernels on this machine's GPU" in done.stdout
