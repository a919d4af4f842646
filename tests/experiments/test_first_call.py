"""First calls are told apart from later ones, and nothing that was compiled before is found."""

import os
import time
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
import triton
from torch import Tensor

from experiments import examine, first_call
from experiments.examine import GpuLost
from experiments.first_call import CACHES, report
from experiments.grids import FIRST_CALL_POINTS, FIRST_CALL_VARIANTS
from experiments.tables import FIRST_CALLS, validated
from kernels.registry import variant


def test_what_a_new_width_costs_is_in_its_first_call(monkeypatch: pytest.MonkeyPatch):
    @cache
    def compiled(cols: int) -> None:
        time.sleep(0.05)

    def softmax(x: Tensor, out: Tensor) -> Tensor:
        compiled(x.shape[1])
        return out

    monkeypatch.setattr(first_call, "load", lambda name: softmax)
    rows = report("torch_eager", "cpu")
    assert [(r["dtype"], r["rows"], r["cols"]) for r in rows] == [
        tuple(p) for p in FIRST_CALL_POINTS
    ]
    assert all(r["first_ms"] >= 50 > r["again_ms"] for r in rows)


def test_a_variant_that_fails_is_a_row_with_its_reason(monkeypatch: pytest.MonkeyPatch):
    def broken(x: Tensor, out: Tensor) -> Tensor:
        raise ValueError("no such block\nand more")

    monkeypatch.setattr(first_call, "load", lambda name: broken)
    rows = report("torch_eager", "cpu")
    assert {(r["status"], r["reason"]) for r in rows} == {("skipped", "ValueError: no such block")}
    assert not any("first_ms" in r for r in rows)


def test_a_lost_gpu_ends_it(monkeypatch: pytest.MonkeyPatch):
    def lost(error: Exception, device: str) -> None:
        raise GpuLost("gone") from error

    def broken(x: Tensor, out: Tensor) -> Tensor:
        raise RuntimeError("an illegal memory access")

    monkeypatch.setattr(first_call, "load", lambda name: broken)
    monkeypatch.setattr(examine, "raise_if_lost", lost)
    with pytest.raises(GpuLost):
        report("torch_eager", "cpu")


def test_the_caches_are_empty_and_the_table_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[tuple[str, bool]] = []

    def reported(name: str, device: str) -> list[dict]:
        folders = {os.environ[key] for key in CACHES}
        seen.append((device, all(not list(Path(folder).iterdir()) for folder in folders)))
        return [
            {"variant": name, "dtype": "float32", "rows": 1, "cols": 2, "status": "ok",
             "reason": "", "first_ms": 2.0, "again_ms": 1.0, "kernel_sha256": "a" * 64,
             "code_commit": "b" * 40}
        ]  # fmt: skip

    for key in CACHES:
        monkeypatch.setenv(key, str(tmp_path))
    (tmp_path / "compiled").touch()
    monkeypatch.setattr(first_call, "report", reported)
    first_call.main(tmp_path / "first_call.csv")
    assert seen == [("cuda", True)] * len(FIRST_CALL_VARIANTS)
    table = validated(FIRST_CALLS, pd.read_csv(tmp_path / "first_call.csv", keep_default_na=False))
    assert table["variant"].tolist() == list(FIRST_CALL_VARIANTS)


def test_its_widths_are_one_compilation_for_a_block_and_every_one_for_constants():
    assert {triton.next_power_of_2(p.cols) for p in FIRST_CALL_POINTS} == {4096}
    assert all(p.cols % 16 == 0 for p in FIRST_CALL_POINTS)
    assert all(
        variant(name).refusal(p.dtype, p.cols) is None
        for name in FIRST_CALL_VARIANTS
        for p in FIRST_CALL_POINTS
    )
