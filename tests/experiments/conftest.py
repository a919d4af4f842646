"""A finished run, and the archive that it makes."""

import json
from pathlib import Path
from shutil import copytree

import pytest

from experiments.archive import pack
from experiments.tables import write_raw
from figures import TABLE_FIGURES
from tests.experiments.finished import FACTS, RAW_FILES, samples
from tests.experiments.raw import raw


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished full run, and beside it the archive that it makes; tests get copies."""
    folder = tmp_path_factory.mktemp("finished") / "results"
    (folder / "raw").mkdir(parents=True)
    (folder / "benchmarks").mkdir()
    (folder / "hardware.json").write_text(json.dumps(FACTS))
    (folder / "correctness.csv").write_text("variant,status\ntorch_eager,ok\n")
    for name in TABLE_FIGURES.values():
        (folder / name).write_text("variant,status\ntorch_eager,ok\n")
    (folder / "gpu_tests.xml").write_text("<testsuites/>")
    (folder / "benchmarks" / "small_batch-0.tsv").write_text("s\n1.5\n")
    for name in RAW_FILES:
        sweep = name.removeprefix("raw/").removesuffix(".csv.gz")
        write_raw(raw(*samples(sweep=sweep)), folder / name)
    pack(folder, folder.with_name("archive"))
    return folder


@pytest.fixture
def results(finished: Path, tmp_path: Path) -> Path:
    return copytree(finished, tmp_path / "results" / "local-test-gpu")


@pytest.fixture
def packed(finished: Path, tmp_path: Path) -> Path:
    return copytree(finished.with_name("archive"), tmp_path / "archive" / "test-gpu")
