"""`snakemake profile`: counted where there are a GPU and ncu, the archive's counts elsewhere."""

import shutil
from pathlib import Path

import pytest

from experiments.profiler import refused, table
from tests.experiments.counted import COMMIT, PROFILER
from tests.workflow.checkout import snakemake
from tests.workflow.recorded import GPU, SOURCE, forget
from workflow import source
from workflow.source import Source
from workflow.tables import PROFILE_FIGURES, archived_profile, profiled, unprofiled

CONFIG = ["--config", f"source={SOURCE}"]
LOCAL = f"local-{GPU}"


def install_ncu(tools: Path) -> None:
    (tools / "ncu").write_text("#!/bin/sh\nexit 1\n")
    (tools / "ncu").chmod(0o755)


def test_the_archived_counts_are_drawn_and_named(copy: Path):
    done = snakemake(copy, "profile", *CONFIG)
    assert done.returncode == 0, done.stdout
    said = "ncu counts on a GPU, and this run takes its data from an archive"
    drawn = f"that of {SOURCE} is drawn, in results/{SOURCE}/figures"
    assert f"no profile of this run: {said}; {drawn}\n" in done.stdout
    for figure in PROFILE_FIGURES:
        for suffix in ("svg", "png", "pdf"):
            assert (copy / "results" / SOURCE / "figures" / f"{figure}.{suffix}").exists()
    made = {path.name for path in (copy / "results" / SOURCE).rglob("*") if path.is_file()}
    assert {"profile.csv", "hardware.json", "limits.md"} <= made
    assert "vocab_scaling.csv" not in made


def test_an_archive_without_counts_is_named_in_one_sentence(copy: Path):
    forget(copy, "profile.csv")
    done = snakemake(copy, "profile", *CONFIG)
    assert done.returncode != 0
    assert f"experiments/archive/{GPU} holds no profile.csv yet" in done.stdout
    assert "Traceback" not in done.stdout
    listed = snakemake(copy, "--dry-run", *CONFIG)
    assert listed.returncode == 0, listed.stdout
    assert "rule profile_figure" not in listed.stdout
    assert "rule limits_page" not in listed.stdout


@pytest.mark.usefixtures("gpu")
def test_a_gpu_with_ncu_counts_when_asked_and_for_the_archive(copy: Path, tools: Path):
    install_ncu(tools)
    asked = snakemake(copy, "--dry-run", "profile")
    assert asked.returncode == 0, asked.stdout
    assert f"source: {LOCAL}" in asked.stdout or LOCAL in asked.stdout
    assert "rule profile_table:" in asked.stdout
    assert asked.stdout.count("rule profile_figure:") == len(PROFILE_FIGURES)
    assert asked.stdout.count("rule limits_page:") == 1
    # What is drawn where ncu may not count after all.
    assert f"results/{SOURCE}/profile.csv" in asked.stdout
    packed = snakemake(copy, "--dry-run", "archive")
    assert packed.returncode == 0, packed.stdout
    assert "rule profile_table:" in packed.stdout
    everything = snakemake(copy, "--dry-run")
    assert everything.returncode == 0, everything.stdout
    assert "rule profile_table:" not in everything.stdout


@pytest.mark.usefixtures("gpu")
def test_where_ncu_may_not_count_the_archive_is_drawn(copy: Path, tools: Path):
    install_ncu(tools)
    local = copy / "results" / LOCAL
    local.mkdir(parents=True)
    table(refused("no"), {}, PROFILER, COMMIT).to_csv(local / "profile.csv", index=False)
    recorded = copy / "experiments" / "archive" / GPU / "hardware.json"
    shutil.copyfile(recorded, local / "hardware.json")
    figure = f"results/{LOCAL}/figures/dram_bytes.svg"
    done = snakemake(copy, figure, "--allowed-rules", "ingest_test_gpu", "profile_figure")
    assert done.returncode == 0, done.stdout
    assert (copy / figure).exists()
    (local / "figures" / "dram_bytes.svg").unlink()
    forget(copy, "profile.csv")
    failed = snakemake(copy, figure, "--allowed-rules", "ingest_test_gpu", "profile_figure")
    assert failed.returncode != 0
    assert "counts nothing: no; and no archive holds a profile yet" in failed.stdout


@pytest.mark.usefixtures("gpu", "tools")
def test_a_gpu_without_ncu_draws_the_archive_and_packs_no_counts(copy: Path):
    asked = snakemake(copy, "--dry-run", "profile")
    assert asked.returncode == 0, asked.stdout
    assert f"results/{SOURCE}/figures/dram_bytes.svg" in asked.stdout
    assert "rule profile_table:" not in asked.stdout
    packed = snakemake(copy, "--dry-run", "archive")
    assert packed.returncode == 0, packed.stdout
    assert "rule accuracy:" in packed.stdout
    assert "rule profile_table:" not in packed.stdout
    forget(copy, "profile.csv")
    nothing = snakemake(copy, "--dry-run", "profile")
    assert nothing.returncode != 0
    said = "no profile: ncu (Nsight Compute) is not on PATH: install it, or add its folder"
    assert f"{said}; experiments/archive/{GPU} holds no profile.csv yet" in nothing.stdout


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Archives of three GPUs; that of the A100 holds no profile."""
    monkeypatch.setattr(source, "ARCHIVES", tmp_path)
    for gpu in ("nvidia-h200", "nvidia-a100", "nvidia-b200"):
        (tmp_path / gpu).mkdir()
        names = ["hardware.json", *(["profile.csv"] if gpu != "nvidia-a100" else [])]
        lines = (f"{'0' * 64}  {name}\n" for name in names)
        (tmp_path / gpu / "SHA256SUMS").write_text("".join(lines))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "gpu", "stands_in"),
    [
        ("local-nvidia-b200-quick", "nvidia-b200", "archive-nvidia-b200"),
        ("local-nvidia-a100", "nvidia-a100", "archive-nvidia-h200"),
        ("archive-nvidia-b200", "nvidia-b200", "archive-nvidia-b200"),
        ("archive-nvidia-a100", "nvidia-a100", ""),
    ],
)
@pytest.mark.usefixtures("archives")
def test_which_archive_stands_in(name: str, gpu: str, stands_in: str, tools: Path, tmp_path: Path):
    run = Source(name, gpu, name.startswith("local"))
    assert archived_profile(run) == profiled(run) == stands_in
    assert ("not on PATH" in unprofiled(run)) == run.local
    install_ncu(tools)
    assert profiled(run) == (name if run.local else stands_in)
    assert (unprofiled(run) == "") == run.local
