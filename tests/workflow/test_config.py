"""A configuration that cannot be used is refused in one line that lists what can."""

import subprocess
from pathlib import Path

import pytest

from tests.workflow.checkout import checkout, snakemake
from tests.workflow.recorded import GPU, SOURCE


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with one archive, whose files nobody reads."""
    folder = checkout(tmp_path_factory.mktemp("checkout"))
    archive = folder / "experiments" / "archive" / GPU
    archive.mkdir(parents=True)
    (archive / "SHA256SUMS").write_text(f"{'0' * 64}  hardware.json\n")
    return folder


def dry_run(root: Path, *config: str) -> subprocess.CompletedProcess[str]:
    return snakemake(root, "--dry-run", "--config", *config)


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (["sauce=archive"], "unknown config key 'sauce'; known: source, mode, seed"),
        ([f"source={SOURCE}", "mode=huge"], "unknown mode 'huge'; expected quick or full"),
        (["source=remote"], "unknown source 'remote'; expected auto, local, archive"),
        (["source=archive-nvidia-h9000"], f"no archive of 'nvidia-h9000'; known: {GPU}"),
        ([f"source={SOURCE}", "seed=one"], "unknown seed 'one'; expected a whole number"),
        ([f"source={SOURCE}", "seed=1.5"], "unknown seed '1.5'; expected a whole number"),
    ],
    ids=["key", "mode", "source", "archive", "seed", "fraction"],
)
def test_a_bad_configuration_is_one_line(config: list[str], line: str, root: Path):
    done = dry_run(root, *config)
    assert done.returncode != 0
    assert sum(line in shown for shown in done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stdout
    assert not (root / "results").exists()


def test_an_unknown_target_is_named(root: Path):
    done = snakemake(root, "--dry-run", "vocab", "--config", f"source={SOURCE}")
    assert done.returncode != 0
    assert "vocab" in done.stdout
    assert "Traceback" not in done.stdout


def test_the_listing_has_every_target(root: Path):
    shown = snakemake(root, "--list", "--config", f"source={SOURCE}").stdout
    names = {line.split()[0] for line in shown.splitlines() if line.strip()}
    assert {"all", "figures", "smoke", "archive"} <= names
    assert {"vocab_scaling", "batch_scaling", "small_batch"} <= names
