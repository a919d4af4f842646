"""Layouts are timed in turn with copy, ratios formed inside a turn, results checked before."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from experiments import layouts, timer
from experiments.launches import Gpu
from experiments.layout import LAYOUTS
from experiments.layouts import PAIRS, TURNS
from experiments.sweeps import Point
from experiments.sweeps.sweep import COPIES
from experiments.tables import LAYOUTS as TABLE
from experiments.tables import read_csv, validated
from kernels.frontier.select import DEFAULT

POINT = Point("float32", 3, 16)


class Fake(timer.DeviceTimer):
    """A copy that takes 100 ns a turn more, and rows that take twice as long as copy."""

    made: list["Fake"]

    def __init__(self, fn, pairs, flush, estimate_ns: float, graph: bool = True) -> None:
        self.pairs: list[Any] = list(pairs)
        self.turn = 0
        self.copy = fn is copies
        Fake.made.append(self)

    def sample(self) -> float:
        self.turn += 1
        return 1000.0 + 100 * self.turn if self.copy else 2 * (1000.0 + 100 * self.turn)


def copies(x: Tensor, out: Tensor) -> Tensor:
    return out.copy_(x)


def softmax(x: Tensor, out: Tensor) -> Tensor:
    return out.copy_(torch.softmax(x, dim=1))


@pytest.fixture(autouse=True)
def cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors on the CPU, at one small point, and time that passes as Fake says."""
    Fake.made = []
    monkeypatch.setattr(timer, "DeviceTimer", Fake)
    monkeypatch.setattr(timer, "Flush", lambda device: None)
    monkeypatch.setattr(timer, "buffers", lambda point, device, seed: [])
    monkeypatch.setattr(layouts, "present", lambda: Gpu(DEFAULT, 90, 132))
    monkeypatch.setattr(layouts, "compile_all", list)
    monkeypatch.setattr(layouts, "points", lambda: [POINT])
    monkeypatch.setattr(layouts, "attempt", lambda name, point, device, run: (run(), ""))
    monkeypatch.setattr(layouts, "load", lambda name: copies if name in COPIES else softmax)


def made(path: Path) -> pd.DataFrame:
    layouts.main(path, "cpu")
    return validated(TABLE, read_csv(path))


def test_every_layout_has_a_row_and_its_ratio_is_that_of_a_turn(tmp_path: Path):
    table = made(tmp_path / "layouts.csv")
    assert table["layout"].tolist() == [layout.name for layout in LAYOUTS]
    assert set(table["status"]) == {"ok"}
    # Times rise from turn to turn: only ratios inside a turn are all one half.
    for column in ("fraction_of_copy", "fraction_low", "fraction_high"):
        assert table[column].tolist() == [0.5] * len(LAYOUTS)
    assert set(table["n_samples"]) == {TURNS}
    timed = Fake.made[len(COPIES) :]
    assert [len(each.pairs) for each in timed] == [PAIRS] * len(LAYOUTS)
    in_place = timed[[layout.in_place for layout in LAYOUTS].index(True)]
    assert all(x.data_ptr() == out.data_ptr() for x, out in in_place.pairs)
    strides = [each.pairs[0][0].stride(0) for each in timed]
    assert strides == [16 + layout.gap_x for layout in LAYOUTS]


def test_a_wrong_result_is_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def wrong(x: Tensor, out: Tensor) -> Tensor:
        return softmax(x, out) if x.stride(0) == 16 else out.fill_(1 / 16)

    monkeypatch.setattr(layouts, "load", lambda name: copies if name in COPIES else wrong)
    table = made(tmp_path / "layouts.csv").set_index("layout")
    for layout in LAYOUTS:
        row = table.loc[layout.name]
        assert row["status"] == ("ok" if layout.gap_x == 0 else "wrong")
        assert ("relative error" in row["reason"]) == (layout.gap_x != 0)
        assert pd.isna(row["fraction_of_copy"]) == (layout.gap_x != 0)


def test_what_cannot_run_is_skipped_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(layouts, "attempt", lambda *arguments: (None, "no room"))
    table = made(tmp_path / "layouts.csv")
    assert set(table["status"]) == {"skipped"}
    assert set(table["reason"]) == {"no room"}
