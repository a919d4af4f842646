"""What tuning down columns measures: shapes that hold a strip, of which the fastest is taken."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments import tune_columns, tuning
from experiments.tune_columns import DTYPES, SHAPES, Tensors
from kernels.frontier import columns_plans, select
from kernels.frontier.columns_plans import (
    FOLDER,
    MOST_STAGED,
    MOST_WORDS,
    Choice,
    Columns,
    by_rule,
    choose,
    chosen,
    table,
)
from kernels.frontier.plans import VECTOR_BYTES, Shape
from tests.experiments.test_tune import Gpu, Processes

FAST = Shape("held", (16, 4, 128, 8, 8, 0))
HELD_BY_FAST = {1024, 2048, 3072, 4096}  # rows, of those that are measured


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lies", SHAPES, ids=str)
def test_every_tensor_has_candidates_that_hold_it(lies: tuple[int, int, int], dtype: str):
    tensors = Tensors(dtype, *lies)
    shapes = tensors.shapes()
    assert len(shapes) > 10
    for shape in shapes:
        choice = chosen(shape, tensors.columns, tensors.size, VECTOR_BYTES, log=False)
        if shape.regime == "bands":
            covers(choice, tensors)
            continue
        plan, (_, lanes, threads, blocks, least, eighths, *more) = choice.plans[0], shape.sizes
        assert plan.polynomial == sum(more)
        assert not more or tensors.size == 2
        assert plan.cols_held(tensors.size) >= tensors.cols
        assert plan.held * VECTOR_BYTES // 4 <= MOST_WORDS
        assert (plan.staged > 0) == (eighths > 0)
        assert plan.shared_bytes * least <= MOST_STAGED
        assert threads * least <= 2048
        places = choice.strips * lanes * VECTOR_BYTES // tensors.size
        assert places >= tensors.outer * tensors.inner
        assert choice.splits == blocks


def covers(choice: Choice, tensors: Tensors) -> None:
    """Whether bands have all rows and places, and what meets has room."""
    _, lanes, threads, *_ = choice.plans[0].shape.sizes
    assert choice.share % (threads // lanes) == 0
    assert (choice.splits - 1) * choice.share < tensors.cols <= choice.splits * choice.share
    assert choice.places(tensors.size) >= tensors.outer * tensors.inner
    pieces = choice.blocks // 2
    assert choice.band * choice.splits <= choice.ahead <= pieces
    assert choice.strips * choice.splits <= pieces < (choice.strips + choice.band) * choice.splits
    capacity = choice.capacity(tensors.size)
    assert capacity & (capacity - 1) == 0
    assert capacity >= choice.places(tensors.size)
    assert 4 * capacity >= choice.strips * (choice.groups + 1)
    assert 32 * choice.groups >= choice.splits


@pytest.mark.parametrize("gpu", sorted(p.stem for p in (select.TABLES / FOLDER).glob("*.json")))
def test_a_tensor_that_was_measured_goes_by_its_own_shape(gpu: str):
    for entry in table(gpu):
        choice = choose(entry.columns, entry.size, VECTOR_BYTES, False, 90, 132, gpu)
        own = chosen(entry.shape, entry.columns, entry.size, VECTOR_BYTES, log=False)
        assert choice == own, entry


def test_rows_off_256_bytes_go_by_such_rows_where_some_were_measured(
    monkeypatch: pytest.MonkeyPatch,
):
    level, off = (Columns(1, 64, n, 64 * n, n) for n in (2**20, 2**20 + 32))
    shapes = Shape("held", (16, 16, 128, 1, 7, 0)), Shape("held", (16, 32, 128, 1, 4, 0))
    known = [columns_plans.Entry(2, c, s) for c, s in zip((level, off), shapes, strict=True)]
    monkeypatch.setattr(columns_plans, "table", lambda _: known)

    def served(places: int) -> Shape:
        columns = Columns(1, 64, places, 64 * places, places)
        return choose(columns, 2, VECTOR_BYTES, False, 90, 132).plans[0].shape

    assert [served(n) for n in (10**6, 999_936, 2**21, 2**21 + 64)] == [*shapes[::-1], *shapes]
    known.pop()
    assert served(10**6) == shapes[0]


def test_strips_of_512_bytes_are_tried_where_rows_begin_off_256_alone():
    for tensors in (Tensors(dtype, *lies) for dtype in DTYPES for lies in SHAPES):
        wide = {s.sizes[0] * s.sizes[1] for s in tensors.shapes() if s.regime == "held"}
        assert (512 in wide) == (tensors.inner % 512 == 32)


def test_a_shape_that_cannot_hold_a_tensor_is_refused():
    with pytest.raises(ValueError, match="cannot hold"):
        chosen(FAST, Columns(1, 10**6, 64, 64 * 10**6, 64), 4, 16, log=False)
    bands = Shape("bands", (16, 8, 256, 1, 2, 6, 6, 0))
    with pytest.raises(ValueError, match="cannot take"):
        chosen(bands, Columns(2**9, 4096, 2**10, 2**22, 2**10), 2, 16, log=False)
    with pytest.raises(ValueError, match="in units of 4 bytes"):
        chosen(FAST, Columns(1, 64, 63, 64 * 63, 63), 4, 4, log=False)


def test_the_fastest_of_each_tensor_is_what_one_like_it_then_goes_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fast(shape: Shape) -> bool:
        return shape.regime == "held" and shape.sizes[:4] == FAST.sizes[:4]

    def measure(tensors: Tensors, shapes: list[Shape], _: Any) -> dict[Shape | None, float]:
        # The rule's choice is the fastest of 64 rows.
        rule = 0.9 if tensors.cols == 64 else 0.6
        return {None: rule, **{shape: 0.5 + fast(shape) / 4 for shape in shapes}}

    monkeypatch.setattr(tune_columns.torch.cuda, "get_device_properties", lambda _: Gpu)
    monkeypatch.setattr(tune_columns.timer, "Flush", lambda _: None)
    monkeypatch.setattr(tune_columns, "architecture", lambda: "sm_90")
    monkeypatch.setattr(tune_columns, "pool", lambda _: Processes())
    monkeypatch.setattr(tune_columns, "measure", measure)
    out, log = tmp_path / "columns" / "nvidia-h200.json", tmp_path / "log.csv"
    # As git says it of a table that it knows.
    monkeypatch.setattr(
        tuning, "commit", lambda but="": "a" * 40 + "-dirty" * (not out.exists() and not but)
    )
    out.parent.mkdir()
    out.write_text("{}")
    tune_columns.main(out, log)
    assert json.loads(out.read_text())["code_commit"] == "a" * 40
    assert {"rule", "held", "bands"} == set(pd.read_csv(log)["regime"])
    entries = json.loads(out.read_text())["entries"]
    assert {e["cols"] for e in entries if fast(select.shape_of(e))} == HELD_BY_FAST
    assert not [e for e in entries if e["cols"] == 64]
    out.write_text(json.dumps({"entries": [e for e in entries if fast(select.shape_of(e))]}))

    before = out.read_bytes()

    def interrupted(*_: Any) -> None:
        assert not out.exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_columns, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune_columns.main(out, log)
    assert out.read_bytes() == before

    monkeypatch.setattr(select, "TABLES", tmp_path)
    table.cache_clear()

    def taken(outer: int, cols: int, inner: int, size: int = 4, gpu: str = "nvidia-h200") -> Shape:
        lies = Columns(outer, cols, inner, cols * inner, inner)
        unit = 16 if inner * size % 16 == 0 else 4
        return choose(lies, size, unit, False, 90, 132, gpu).plans[0].shape

    def rule(outer: int, cols: int, inner: int, size: int = 4) -> Shape:
        lies = Columns(outer, cols, inner, cols * inner, inner)
        unit = 16 if inner * size % 16 == 0 else 4
        return by_rule(lies, size, unit, False, 90, 132).plans[0].shape

    try:
        for lies in ((1, 4096, 4096), (1, 4000, 4096), (32, 2048, 512), (8, 2500, 4096)):
            assert fast(taken(*lies)), lies
            assert not fast(rule(*lies)), lies
            assert fast(taken(*lies, gpu="another-hopper")), lies
        # Fewer rows or more, far fewer places, other units: by rule.
        for lies in ((1, 500, 2**17), (1, 8192, 8192), (1, 2048, 64), (1, 4096, 4095)):
            assert taken(*lies) == rule(*lies), lies
    finally:
        table.cache_clear()
