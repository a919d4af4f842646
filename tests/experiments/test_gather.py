"""Blocks become a raw file in their order, and one that is damaged is not passed over."""

from pathlib import Path

import pandas as pd
import pytest
import typer

from experiments import gather
from experiments.tables import read_raw, write_raw
from tests.experiments.raw import raw, row


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"block-{i}.csv.gz" for i in range(3)]
    for i, path in enumerate(paths):
        write_raw(raw(row("torch_eager", 100.0 + i, block=i)), path)
    return paths


def test_no_row_is_lost_or_doubled(files: list[Path], tmp_path: Path):
    gather.main(files, tmp_path / "raw" / "smoke.csv.gz")
    table = read_raw(tmp_path / "raw" / "smoke.csv.gz")
    assert table[["block", "time_ns"]].to_numpy().tolist() == [[0, 100], [1, 101], [2, 102]]
    pd.testing.assert_frame_equal(table.iloc[[1]].reset_index(drop=True), read_raw(files[1]))


def test_a_damaged_block_stops_it_and_is_named(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    files[1].write_bytes(files[1].read_bytes()[:-10])
    with pytest.raises(typer.Exit) as stopped:
        gather.main(files, tmp_path / "smoke.csv.gz")
    assert stopped.value.exit_code == 2
    assert f"{files[1]} is not a finished block: " in capsys.readouterr().out
    assert not (tmp_path / "smoke.csv.gz").exists()
