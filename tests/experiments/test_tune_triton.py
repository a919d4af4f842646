"""What tuning of Triton's kernels writes: the fastest of each width, and beside it all tried."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer

from experiments import tried, tune_triton, tuning
from experiments.tried import beside
from kernels.triton import _select
from kernels.triton._select import Request, Shape
from tests.experiments.test_tune import Gpu, Processes

SLOW = "held"


class Gpus(Gpu):
    max_threads_per_multi_processor = 2048


class Compiles(Processes):
    """A pool in which no call says what failed."""

    def map(self, _: Any, *arguments: Any) -> list[Any]:
        return [""] * len(arguments[0])


@pytest.fixture
def tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the table is to be; of two shapes that differ in their regime held is the slower."""

    def measure(dtype: str, rows: int, cols: int, shapes: list[Shape], *_: Any) -> dict[Any, float]:
        return {s: 0.5 + (s.regime != SLOW) / 4 + len(s.sizes) / 100 for s in shapes}

    monkeypatch.setattr(tune_triton.torch.cuda, "get_device_properties", lambda _: Gpus)
    monkeypatch.setattr(tune_triton.timer, "Flush", lambda _: None)
    monkeypatch.setattr(tune_triton, "pool", lambda _: Compiles())
    monkeypatch.setattr(tune_triton, "measure", measure)
    assert tuning.torch is tune_triton.torch
    return tmp_path / "tables" / "nvidia-h200.json"


def test_the_fastest_of_each_width_is_what_rows_then_go_by(
    tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = tmp_path / "log.csv"
    tune_triton.main(tuned, log)
    found, told = json.loads(tuned.read_text()), pd.read_csv(log)
    assert len(found["entries"]) == len(told.groupby(["dtype", "edges", "cols"]))
    kept = tried.read(beside(tuned))
    assert len(kept) == len(told)
    assert kept["rows"].isna().all()
    assert kept["fraction_of_copy"].tolist() == told["fraction_of_copy"].tolist()
    assert (kept["edges"] == "edges").tolist() == told["edges"].tolist()
    assert [] in kept["sizes"].tolist()
    assert set(kept["code_commit"]) == {found["code_commit"]}
    for _, some in told.groupby(["dtype", "edges", "cols"]):
        assert some["fraction_of_copy"].is_monotonic_decreasing
        assert not some.duplicated(["regime", "sizes", "raw"]).any()

    monkeypatch.setattr(_select, "TABLES", tuned.parent)
    _select.table.cache_clear()
    try:
        for cols, edges in ((151_936, False), (100_003, True)):
            shape = _select.select(Request("bfloat16", cols, edges, 132, 2048), "nvidia-h200")
            assert shape.regime == "grid"
        narrow = _select.select(Request("float32", 65, True, 132, 2048), "nvidia-h200")
        assert narrow.regime == "held"
    finally:
        _select.table.cache_clear()


def test_some_widths_leave_the_table_and_what_was_tried_of_others(
    tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = tmp_path / "log.csv"
    tune_triton.main(tuned, log)
    table, before = tuned.read_text(), tried.read(beside(tuned))
    monkeypatch.setattr(tune_triton, "tuned_at", lambda: "later")
    tune_triton.main(tuned, log, [65, 131_072])
    assert tuned.read_text() == table
    told = pd.read_csv(log)
    assert set(zip(told["cols"], told["edges"], strict=True)) == {(65, True), (131_072, False)}
    assert set(told["dtype"]) == {"float32", "float16", "bfloat16"}
    kept = tried.read(beside(tuned))
    assert len(kept) == len(before)
    assert set(kept.loc[kept["code_commit"] == "later", "cols"]) == {65, 131_072}


def test_widths_that_the_table_does_not_have_are_tried_by_each_dtypes_edges(
    tuned: Path, tmp_path: Path
):
    tune_triton.main(tuned, tmp_path / "log.csv", [151_936, 100_004])
    kept = tried.read(beside(tuned))
    edges = kept.drop_duplicates(["dtype", "cols"]).set_index(["dtype", "cols"])["edges"]
    assert edges.to_dict() == {
        **{(dtype, 151_936): "none" for dtype in ("float32", "float16", "bfloat16")},
        ("float32", 100_004): "none", ("float16", 100_004): "edges", ("bfloat16", 100_004): "edges",
    }  # fmt: skip
    assert not tuned.exists()


def test_a_width_of_no_columns_is_refused(tuned: Path, tmp_path: Path):
    with pytest.raises(typer.BadParameter, match="0 columns; a row has one at least"):
        tune_triton.main(tuned, tmp_path / "log.csv", [65, 0])
    assert not list(tmp_path.iterdir())
