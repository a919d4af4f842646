"""A finished full run that an archive is made of, and what packing refuses of it."""

from pathlib import Path

import pytest
import typer

from experiments.archive import pack
from experiments.hardware import environment_sha256
from experiments.sweeps import MODES, SWEEPS
from figures import TABLE_FIGURES
from tests.experiments.raw import Row, blocks

FACTS = {"source": "local-test-gpu", "mode": "full", "code_commit": "a" * 40, "gpu": "Test GPU"}
RAW_FILES = [f"raw/{name}.csv.gz" for name in SWEEPS if name != "smoke"]
OTHERS = ["hardware.json", "correctness.csv", "gpu_tests.xml", *TABLE_FIGURES.values()]


def samples(**changes: object) -> list[Row]:
    facts = {"env_sha256": environment_sha256(FACTS), **changes}
    times = [100.0 + i for i in range(MODES["full"])]
    return [*blocks("copy_torch", *times, **facts), *blocks("torch_eager", *times, **facts)]


def refusal(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What ``pack`` says; it leaves nothing behind."""
    capsys.readouterr()
    with pytest.raises(typer.Exit) as stopped:
        pack(results, tmp_path / "archive" / "test-gpu")
    assert stopped.value.exit_code == 2
    left = tmp_path / "archive"
    assert not left.exists() or not list(left.iterdir())
    return capsys.readouterr().out
