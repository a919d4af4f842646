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


@pytest.mark.parametrize("shown", GALLERY, ids=lambda path: path.name)
def test_readme_shows_what_the_archive_draws(shown: Path, tmp_path: Path):
    sweep = FIGURES[shown.stem]
    for name in ("hardware.json", f"raw/{sweep}.csv.gz"):
        run("experiments.archive", "ingest", ARCHIVE, name, tmp_path / name)
    tidy = tmp_path / f"{sweep}.csv"
    run("experiments.tidy", "--raw", tmp_path / f"raw/{sweep}.csv.gz", "--out", tidy)
    hardware = tmp_path / "hardware.json"
    run(f"figures.{shown.stem}", tidy, "--hardware", hardware, "--stem", tmp_path / shown.stem)
    assert (tmp_path / shown.name).read_bytes() == shown.read_bytes()


def test_readme_shows_every_picture_of_the_gallery():
    readme = (ROOT / "README.md").read_text()
    assert GALLERY
    assert all(f"figures/gallery/{path.name}" in readme for path in GALLERY)
