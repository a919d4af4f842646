"""A finished run, and the archive that it makes; records of launches, and kernels to edit."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pandas as pd
import pytest
import torch

from experiments import launched, stale
from experiments.archive import pack
from experiments.launched import NAME, launched_sha256
from experiments.tables import write_raw
from figures import TABLE_FIGURES
from kernels.frontier import plans
from tests.experiments.finished import FACTS, RAW_FILES, samples
from tests.experiments.raw import raw
from tests.experiments.recorded_launches import FACTS as H200_FACTS


@pytest.fixture
def switched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the profiler's switches, its ranges and waits for the GPU were asked, in order."""
    log: list[str] = []

    class Switch:
        def __init__(self, text: str = "profiler") -> None:
            self.text = text

        def __enter__(self) -> None:
            log.append(f"on {self.text}")

        def __exit__(self, *error: object) -> None:
            log.append(f"off {self.text}")

    monkeypatch.setattr(torch.cuda.profiler, "profile", Switch)
    monkeypatch.setattr(torch.cuda.nvtx, "range", Switch)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: log.append("wait"))
    return log


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


@pytest.fixture
def looked_up_again() -> Iterator[None]:
    """What is known of launches and of their code is looked up once a process."""

    def forget() -> None:
        for known in (launched_sha256, launched._device_code, launched._host_code, stale.records):
            known.cache_clear()

    forget()
    yield
    forget()


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Adds a line to a file of a copy of the frontier's device code."""
    monkeypatch.setattr(plans, "HERE", copytree(plans.HERE, tmp_path / "frontier"))

    def add(name: str, line: str) -> None:
        path = plans.HERE / name
        path.write_text(f"{path.read_text()}\n{line}\n")
        launched_sha256.cache_clear()
        launched._device_code.cache_clear()

    return add


@pytest.fixture
def archives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looked_up_again: None
) -> Callable[..., Path]:
    """Makes an archive of ``facts`` with a record, among those that are looked into."""
    monkeypatch.setattr(stale, "ARCHIVES", tmp_path / "archive")

    def made(
        table: pd.DataFrame, facts: dict[str, Any] = H200_FACTS, name: str = "nvidia-h200"
    ) -> Path:
        folder = tmp_path / "archive" / name
        folder.mkdir(parents=True)
        (folder / "hardware.json").write_text(json.dumps(facts))
        table.to_csv(folder / NAME, index=False)
        return folder

    return made
