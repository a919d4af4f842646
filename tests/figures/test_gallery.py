"""The pictures that README shows are what the archive draws."""

import subprocess
import sys
from pathlib import Path

import pytest

from figures import FIGURES

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "experiments" / "archive" / "nvidia-h200"
GALLERY = sorted((ROOT / "figures" / "gallery").iterdir())


def run(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", *map(str, arguments)], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    run("experiments.archive", "ingest", ARCHIVE, folder)
    return folder


@pytest.mark.parametrize("shown", GALLERY, ids=lambda path: path.name)
def test_readme_shows_what_the_archive_draws(shown: Path, ingested: Path, tmp_path: Path):
    sweep = FIGURES[shown.stem]
    tidy = tmp_path / f"{sweep}.csv"
    run("experiments.tidy", "--raw", ingested / f"raw/{sweep}.csv.gz", "--out", tidy)
    hardware = ingested / "hardware.json"
    run(f"figures.{shown.stem}", tidy, "--hardware", hardware, "--stem", tmp_path / shown.stem)
    assert (tmp_path / shown.name).read_bytes() == shown.read_bytes()


def test_readme_shows_every_picture_of_the_gallery():
    readme = (ROOT / "README.md").read_text()
    assert GALLERY
    assert all(f"figures/gallery/{path.name}" in readme for path in GALLERY)
