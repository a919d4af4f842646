"""The command: blocks in fresh processes, none lost or doubled, and one sentence for bad input."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from experiments.family import measure
from experiments.family.measure import MOST_CRASHES, asked
from experiments.family.operator import BLOCKS, LOST
from experiments.family.tables import read_raw, read_tidy
from experiments.tables import write_raw
from tests.commands import module
from tests.experiments.family.made import raw_of


class Processes:
    """In place of the forkserver's: blocks end with ``exitcodes``, or tables where those end."""

    def __init__(self, *exitcodes: int) -> None:
        self.exitcodes, self.begun = list(exitcodes), []

    def Process(self, target: Any, args: tuple[Any, ...]) -> SimpleNamespace:
        self.begun.append(args[2])
        code = self.exitcodes.pop(0) if self.exitcodes else 0
        if code == 0:
            table = raw_of("columns", "smoke")
            write_raw(table[table["block"] == 0].assign(block=args[2]), args[6])
        return SimpleNamespace(start=lambda: None, join=lambda: None, exitcode=code)


def run(folder: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch, blocks: int = 0):
    monkeypatch.setattr(measure, "forkserver", lambda *_, **__: processes)
    monkeypatch.setattr(measure, "machine", lambda *_: {"source": "local-test-gpu"})
    measure.main("columns", folder / "columns.csv.gz", "full", blocks, device="cpu")
    return read_raw(folder / "columns.csv.gz")


def test_every_block_is_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    processes = Processes()
    table = run(tmp_path, processes, monkeypatch)
    assert processes.begun == [0, 1, 2]
    assert set(table["block"]) == set(range(BLOCKS["full"]))
    assert set(run(tmp_path, Processes(), monkeypatch, blocks=1)["block"]) == {0}
    assert not list(tmp_path.glob("blocks-*"))


def test_a_block_that_loses_the_gpu_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    processes = Processes(LOST, LOST, 0)
    run(tmp_path, processes, monkeypatch)
    assert processes.begun == [0, 0, 0, 1, 2]
    hopeless = Processes(*[LOST] * 99)
    with pytest.raises(typer.Exit) as ended:
        run(tmp_path / "again", hopeless, monkeypatch)
    assert ended.value.exit_code == LOST
    assert len(hopeless.begun) == MOST_CRASHES


@pytest.mark.parametrize(("code", "told"), [(1, 1), (2, 2), (-9, 1)])
def test_what_was_finished_before_a_failure_is_kept(
    code: int, told: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(typer.Exit) as ended:
        run(tmp_path, Processes(0, code), monkeypatch)
    assert ended.value.exit_code == told
    assert not (tmp_path / "columns.csv.gz").exists()
    processes = Processes()
    assert set(run(tmp_path, processes, monkeypatch)["block"]) == {0, 1, 2}
    assert processes.begun == [1, 2]


def test_blocks_are_named_by_what_they_follow_from(monkeypatch: pytest.MonkeyPatch):
    facts = {"source": "local-test-gpu", "measured_utc": "2026-01-01"}
    name = asked("columns", "full", 1, "cuda", facts)
    assert name == asked("columns", "full", 1, "cuda", {**facts, "measured_utc": "2027-01-01"})
    others = {
        asked("sample", "full", 1, "cuda", facts),
        asked("columns", "quick", 1, "cuda", facts),
        asked("columns", "full", 2, "cuda", facts),
        asked("columns", "full", 1, "cuda", {**facts, "gpu": "another"}),
    }
    monkeypatch.setattr(measure, "sha256_of", lambda name: "other code")
    others.add(asked("columns", "full", 1, "cuda", facts))
    assert len(others | {name}) == 6


def command(tmp_path: Path, *changes: str | Path) -> list[str | Path]:
    given = {
        "--operator": "sample", "--mode": "smoke", "--device": "cpu",
        "--out": tmp_path / "raw" / "sample.csv.gz",
    }  # fmt: skip
    given |= dict(zip(changes[::2], changes[1::2], strict=True))
    return ["experiments.family.measure", *(word for pair in given.items() for word in pair)]


def test_the_whole_path_on_the_cpu(tmp_path: Path):
    done = module(*command(tmp_path))
    assert done.returncode == 0, done.stdout
    raw = tmp_path / "raw" / "sample.csv.gz"
    assert "12 ok" in done.stdout
    assert "8 skipped" in done.stdout
    assert set(read_raw(raw)["block"]) == {0, 1}
    made = module("experiments.family.tidy", "--raw", raw, "--out", tmp_path / "sample.csv")
    assert made.returncode == 0, made.stdout
    table = read_tidy(tmp_path / "sample.csv")
    ours = table[table["implementation"] == "ours"]
    assert set(ours["status"]) == {"ok"}
    assert set(ours["n_blocks"]) == {2}
    assert not table["stale"].any()


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("--operator", "known: factors, masks, columns, backward, cross_entropy"),
        ("--mode", "known: smoke, quick, full"),
        ("--device", "known: cuda, cpu"),
    ],
)
def test_an_unknown_name_lists_the_known_ones(option: str, known: str, tmp_path: Path):
    done = module(*command(tmp_path, option, "nonsense"))
    assert done.returncode != 0
    assert "Traceback" not in done.stdout
    said = " ".join(done.stdout.replace("│", " ").split())
    assert "'nonsense'" in said
    assert known in said


def test_no_raw_table_is_one_sentence(tmp_path: Path):
    (tmp_path / "a.csv.gz").write_text("no table")
    done = module(
        "experiments.family.tidy", "--raw", tmp_path / "a.csv.gz", "--out", tmp_path / "out.csv"
    )
    assert done.returncode == 2
    assert "a.csv.gz is not a raw table of an operator: " in done.stdout
    assert "python -m experiments.family.measure" in done.stdout
    assert "Traceback" not in done.stdout
