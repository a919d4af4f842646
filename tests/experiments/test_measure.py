"""A sweep is measured block by block: none is lost, doubled, or taken for one of another run."""

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import typer

from experiments import measure
from experiments.measure import asked, finished
from experiments.sweeps import MODES
from experiments.tables import read_raw, write_raw
from tests.commands import ROOT, environment, module
from tests.experiments.raw import raw, row

PATIENCE_S = 60


class Processes:
    """In place of the forkserver's: blocks are ``exitcodes``, or tables where those run out."""

    def __init__(self, *exitcodes: int) -> None:
        self.exitcodes = list(exitcodes)
        self.measured: list[int] = []

    def Process(self, target: Any, args: tuple[Any, ...]) -> SimpleNamespace:
        number, path = args[2], args[6]
        self.measured.append(number)
        code = self.exitcodes.pop(0) if self.exitcodes else 0
        if code == 0:
            write_raw(raw(row("torch_eager", 100.0 + number, block=number)), path)
        return SimpleNamespace(start=lambda: None, join=lambda: None, exitcode=code)


@pytest.fixture
def hardware(tmp_path: Path) -> Path:
    path = tmp_path / "hardware.json"
    path.write_text(json.dumps({"source": "local-test-gpu"}))
    return path


def run(hardware: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(measure, "forkserver", lambda *_, **__: processes)
    out = hardware.parent / "raw" / "launch.csv.gz"
    measure.main("launch", "full", hardware, out, hardware.parent / "blocks", Path("log"))
    return out


def test_no_row_is_lost_or_doubled(hardware: Path, monkeypatch: pytest.MonkeyPatch):
    processes = Processes()
    table = read_raw(run(hardware, processes, monkeypatch))
    assert processes.measured == list(range(MODES["full"]))
    assert table[["block", "time_ns"]].to_numpy().tolist() == [[i, 100 + i] for i in range(5)]


def test_asked_for_again_it_is_measured_again(hardware: Path, monkeypatch: pytest.MonkeyPatch):
    run(hardware, Processes(), monkeypatch)
    processes = Processes()
    run(hardware, processes, monkeypatch)
    assert processes.measured == list(range(MODES["full"]))


@pytest.mark.parametrize(("code", "told"), [(1, 1), (2, 2), (-9, 1)])
def test_a_failing_block_ends_it_and_the_next_run_goes_on_there(
    code: int, told: int, hardware: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(typer.Exit) as ended:
        run(hardware, Processes(0, 0, code), monkeypatch)
    assert ended.value.exit_code == told
    assert not (hardware.parent / "raw").exists()
    processes = Processes()
    table = read_raw(run(hardware, processes, monkeypatch))
    assert processes.measured == [2, 3, 4]
    assert table["block"].tolist() == [0, 1, 2, 3, 4]


def test_a_damaged_block_is_named_and_measured_again(
    hardware: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(typer.Exit):
        run(hardware, Processes(0, 0, 1), monkeypatch)
    damaged = next((hardware.parent / "blocks").rglob("block-1.csv.gz"))
    damaged.write_bytes(damaged.read_bytes()[:-10])
    processes = Processes()
    run(hardware, processes, monkeypatch)
    assert processes.measured == [1, 2, 3, 4]
    assert f"{damaged} is not a finished block: " in capsys.readouterr().err


def test_blocks_of_other_code_are_not_joined(hardware: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(typer.Exit):
        run(hardware, Processes(0, 0, 1), monkeypatch)
    monkeypatch.setattr(measure, "variant_sha256", lambda v: v.name)
    processes = Processes()
    run(hardware, processes, monkeypatch)
    assert processes.measured == list(range(MODES["full"]))


def test_blocks_are_named_by_what_they_follow_from(hardware: Path):
    name = asked("launch", "full", 1, "cuda", hardware)
    assert name == asked("launch", "full", 1, "cuda", hardware)
    others = {
        asked("worklog", "full", 1, "cuda", hardware),
        asked("launch", "quick", 1, "cuda", hardware),
        asked("launch", "full", 2, "cuda", hardware),
        asked("launch", "full", 1, "cpu", hardware),
    }
    hardware.write_text(json.dumps({"source": "local-other-gpu"}))
    others.add(asked("launch", "full", 1, "cuda", hardware))
    assert len(others | {name}) == 6


def test_no_block_is_no_table(tmp_path: Path):
    assert finished(tmp_path / "block-0.csv.gz") is None


def smoke(tmp_path: Path, *changes: str | Path) -> list[str | Path]:
    given = {
        "--sweep": "smoke", "--mode": "smoke", "--device": "cpu",
        "--hardware": tmp_path / "hardware.json", "--out": tmp_path / "smoke.csv.gz",
        "--blocks": tmp_path / "blocks", "--log": tmp_path / "log",
    }  # fmt: skip
    given |= dict(zip(changes[::2], changes[1::2], strict=True))
    return ["experiments.measure", *(word for pair in given.items() for word in pair)]


@pytest.mark.parametrize(
    ("option", "known"),
    [("--sweep", "vocab_scaling, batch_scaling, small_batch"), ("--mode", "smoke, quick, full")],
)
def test_an_unknown_name_lists_the_known_ones(option: str, known: str, hardware: Path):
    done = module(*smoke(hardware.parent, option, "nonsense"))
    assert done.returncode != 0
    assert "Traceback" not in done.stdout
    assert f"known: {known}" in " ".join(done.stdout.replace("│", " ").split())
    assert not (hardware.parent / "smoke.csv.gz").exists()


def test_another_machines_facts_stop_it(hardware: Path):
    facts = {"source": "local-cpu", "gpu": "another", "packages": {}}
    hardware.write_text(json.dumps(facts))
    done = module(*smoke(hardware.parent))
    assert done.returncode == 2
    assert f"{hardware} describes another GPU, driver, environment or seed" in done.stdout


def test_a_killed_run_leaves_no_process_on_the_gpu(tmp_path: Path):
    facts = ["--source", "local-cpu", "--mode", "smoke", "--out", tmp_path / "hardware.json"]
    assert module("experiments.hardware", *facts).returncode == 0
    command = [sys.executable, "-m", *map(str, smoke(tmp_path))]
    run = psutil.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    give_up = time.monotonic() + PATIENCE_S
    # The block's log is begun by the block's own process.
    while not (tmp_path / "log").exists():
        assert run.poll() is None
        assert time.monotonic() < give_up
        time.sleep(0.02)
    family = run.children(recursive=True)
    assert len(family) >= 2  # the forkserver, and the block that it forked
    run.kill()
    run.wait()
    _, alive = psutil.wait_procs(family, timeout=PATIENCE_S)
    assert alive == []
    # It stopped in its middle: a block that goes on to its end would be written.
    assert not list((tmp_path / "blocks").rglob("block-*.csv.gz"))
