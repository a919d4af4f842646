"""What tuning measures: shapes that can serve a width, the shipped table's among them."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import typer

from experiments import neutral, tune
from experiments.candidates import CHUNKS, DEEP_CHUNKS, SMALL_CHUNKS, candidates
from experiments.tune_places import MEASURED
from experiments.tuning import FINALISTS, MORE_SAMPLES, SAMPLES, fastest_first, fractions
from kernels.frontier.operators import TUNED, Causal, Operator
from kernels.frontier.plans import (
    ALIKE,
    APART,
    EDGES,
    NONE,
    UNMASKED_REGIMES,
    VECTOR_BYTES,
    Shape,
    staged_vectors,
)
from kernels.frontier.select import DEFAULT, MANY, TABLES, Request, possible, shape_of
from kernels.operators import composed

TABLE = json.loads((TABLES / f"{DEFAULT}.json").read_text())["entries"]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("edges", [NONE, ALIKE, APART])
def test_every_width_has_candidates_that_hold_it(size: int, edges: int):
    for rows, base in MEASURED:
        cols = base + (edges == ALIKE)
        request = Request(
            "float32" if size == 4 else "float16", rows, cols, edges, contiguous=True,
            lines=False, arch=90, multiprocessors=132,
        )  # fmt: skip
        shapes = [s for s in candidates(request) if possible(s, request)]
        assert shapes, (rows, cols)
        assert len(set(shapes)) == len(shapes)
        for shape in shapes:
            plan = shape.plan(cols, size, edges)
            held = plan.cols_held(size)
            whole = cols - cols % (VECTOR_BYTES // size)
            if shape.regime == "staged":
                held = shape.sizes[1] * staged_vectors(shape, cols, size, edges) * VECTOR_BYTES
                held //= size
            if shape.regime != "chunks":
                assert held >= (cols if shape.regime == "tile" else whole)
            # Nobody's registers hold more than 255 words beside the rest.
            assert plan.held * (4 if shape.raw else VECTOR_BYTES // size) < 255


def test_the_shipped_table_chose_among_them():
    assert len(TABLE) > 200
    for entry in TABLE:
        request = Request(
            entry["dtype"], entry["rows"] or MANY, entry["cols"], EDGES.index(entry["edges"]),
            contiguous=True, lines=False, arch=90, multiprocessors=132,
        )  # fmt: skip
        shape = shape_of(entry)
        # How many blocks a multiprocessor has at least was once asked more finely.
        least = shape.regime in ("block", "cluster")
        sizes = {
            replace(s, sizes=s.sizes[:-1]) if least else s
            for s in candidates(request) if s.regime == shape.regime
        }  # fmt: skip
        assert (replace(shape, sizes=shape.sizes[:-1]) if least else shape) in sizes, entry
    assert {tuple(e["sizes"][:-1]) for e in TABLE if e["regime"] == "chunks"} <= {
        *CHUNKS,
        *SMALL_CHUNKS,
        *DEEP_CHUNKS,
    }


def test_the_fastest_shape_comes_first():
    slow, fast = Shape("block", (128, 1)), Shape("cluster", (128, 4, 1), raw=True)
    told = fastest_first({"cols": 9}, {slow: 0.5, fast: 0.98765})
    assert [e["regime"] for e in told] == ["cluster", "block"]
    assert told[0] == {
        "cols": 9, "regime": "cluster", "sizes": [128, 4, 1], "raw": True,
        "fraction_of_copy": 0.9877,
    }  # fmt: skip


def test_a_shape_comes_back_from_its_entry_whole():
    for shape in (
        Shape("warp", (16, 32), together=2, early=False), Shape("block", (512, 4), exchanges=2),
        Shape("block", (1024, 2), raw=True),
    ):  # fmt: skip
        (entry,) = fastest_first({"cols": 9}, {shape: 1.0})
        assert shape_of(json.loads(json.dumps(entry))) == shape
    assert set(entry) == {"cols", "regime", "sizes", "raw", "fraction_of_copy"}


class Told:
    """A timer that tells what it is given, and counts."""

    def __init__(self, *times: float) -> None:
        self.times, self.count = times, 0

    def sample(self) -> float:
        self.count += 1
        return self.times[min(self.count, len(self.times)) - 1]


def test_the_fastest_are_judged_by_samples_of_their_own():
    # One was lucky while all were sampled; one was never among the fastest.
    lucky, steady, slow = Told(*[9.0] * SAMPLES, 12.0), Told(10.0), Told(11.0)
    others = [Told(10.5) for _ in range(FINALISTS - 2)]
    timers = {"lucky": lucky, "steady": steady, "slow": slow, **dict(enumerate(others))}
    found = fractions([Told(20.0), Told(10.0)], timers)
    assert max(found, key=found.__getitem__) == "steady"
    assert found["steady"] == 1.0
    assert found["lucky"] == pytest.approx(10 / 12)
    assert found["slow"] <= found["lucky"]
    assert (slow.count, steady.count) == (SAMPLES, SAMPLES + MORE_SAMPLES)
    assert fractions([Told(10.0)], {}) == {}


def test_narrow_rows_are_asked_late_and_two_by_two():
    request = Request(
        "float32", MANY, 64, NONE, contiguous=True, lines=True, arch=90, multiprocessors=132
    )
    warps = [s for s in candidates(request) if s.regime == "warp"]
    assert {(s.together, s.early) for s in warps} == {(1, True), (1, False), (2, True), (2, False)}
    asked = {s for s in candidates(replace(request, operator="log")) if s.regime == "warp"}
    assert asked == set(warps)
    # Few are early.
    assert all(s.early for s in candidates(replace(request, rows=64)))
    # A block has all threads of a multiprocessor where they have room for the row.
    wide = replace(request, cols=16_384)
    assert Shape("block", (1024, 2)) in set(candidates(wide))
    assert Shape("block", (1024, 2)) not in set(candidates(replace(wide, cols=32_768)))


class Gpu:
    name, major, minor, multi_processor_count = "NVIDIA H200", 9, 0, 132


class Processes:
    """A pool in which everything compiles at once."""

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, _: Any, *arguments: Any) -> list[bool]:
        return [True] * len(arguments[0])


# Of what was last timed: whether rows are seen from end to end, and what checked them.
whole: list[tuple[bool, Any]] = []


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What is timed, where a staged row is faster than all else, and a wide one is interrupted."""
    found: list[tuple[Any, ...]] = []

    def measure(
        dtype: str, rows: int, cols: int, shapes: list[Shape], *_: Any, placed: Any,
        tensor_bytes: int, timed: Any, right: Any,
    ):  # fmt: skip
        found.append((dtype, rows, cols, shapes, placed))
        assert timed in (None, neutral.run_triangle)
        whole.append((timed is None, right))
        if cols > 2**21:
            raise KeyboardInterrupt
        return {shape: 0.5 + (shape.regime == "staged") / 4 for shape in shapes}

    monkeypatch.setattr(tune.torch.cuda, "get_device_properties", lambda _: Gpu)
    monkeypatch.setattr(tune.timer, "Flush", lambda _: None)
    monkeypatch.setattr(tune, "architecture", lambda: "sm_90")
    monkeypatch.setattr(tune, "pool", lambda _, spare: Processes())
    monkeypatch.setattr(tune, "measure", measure)
    return found


def test_a_part_is_measured_beside_todays_choice_and_the_rest_is_kept(
    seen: list[tuple[Any, ...]], tmp_path: Path
):
    out, log = tmp_path / "made" / "table.json", tmp_path / "log.csv"
    tune.main(out, log, ["staged"], [32, 256], least_cols=30_000)
    assert {rows for _, rows, *_ in seen} == {32, 256}
    assert min(cols for _, _, cols, *_ in seen) == 32_000
    before, after = ({tuple(e[k] for k in tune.POINT): e for e in some} for some in (
        TABLE, json.loads(out.read_text())["entries"],
    ))  # fmt: skip
    measured = {(d, EDGES[c % 8 != 0], r, c): shapes for d, r, c, shapes, _ in seen}
    for point, shapes in measured.items():
        assert after[point]["regime"] == "staged"
        assert "code_commit" not in after[point]
        kinds = {shape.regime for shape in shapes}
        assert "staged" in kinds
        if point in before:
            assert tune.shape_of(before[point]) in shapes
    assert before.keys() | measured.keys() == after.keys()
    for point in before.keys() - measured.keys():
        assert before[point].items() <= after[point].items()
        assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", after[point]["code_commit"])
    assert len(pd.read_csv(log)) == sum(len(shapes) for *_, shapes, _ in seen)


def test_widths_that_are_no_longer_measured_leave_the_table(
    seen: list[tuple[Any, ...]], tmp_path: Path
):
    out = tmp_path / "table.json"
    today = [e for e in TABLE if e["edges"] == "edges apart" and e["rows"] is None]
    earlier = [{**today[0], "cols": cols} for cols in (262_143, 30_000, 16)]
    facts = {"gpu": "NVIDIA H200", "measured_utc": "2026-11-20T00:00:00Z", "code_commit": "a" * 40}
    out.write_text(json.dumps({**facts, "entries": [*TABLE, *earlier]}))
    tune.main(out, tmp_path / "log.csv", ["staged"], edges=["edges apart"], least_cols=20_000)
    asked = {r.cols for r in tune.requests(90, 132) if r.edges == APART}
    assert {placed for *_, placed in seen} == {tune.sliced}
    made = json.loads(out.read_text())["entries"]
    mine = {e["cols"] for e in made if e["dtype"] == today[0]["dtype"]
            and e["edges"] == "edges apart" and e["rows"] is None}  # fmt: skip
    assert 16 in mine
    assert not mine & {262_143, 30_000}
    # What takes the place of others was measured: where staged rows are none, nothing was.
    measured = {cols for dtype, _, cols, *_ in seen if dtype == today[0]["dtype"]}
    for cols in {e["cols"] for e in today if e["dtype"] == today[0]["dtype"]} - mine:
        assert min(c for c in asked if c > cols) in measured
    assert {(e["edges"], e["rows"], e["cols"]) for e in TABLE if e["edges"] != "edges apart"} == {
        (e["edges"], e["rows"], e["cols"]) for e in made if e["edges"] != "edges apart"
    }


def test_of_a_part_what_was_measured_before_an_interruption_is_kept(
    seen: list[tuple[Any, ...]], tmp_path: Path
):
    out = tmp_path / "table.json"
    with pytest.raises(KeyboardInterrupt):
        tune.main(out, tmp_path / "log.csv")
    assert not out.exists()
    seen.clear()
    with pytest.raises(KeyboardInterrupt):
        tune.main(out, tmp_path / "log.csv", rows=[0])
    made = [e for e in json.loads(out.read_text())["entries"] if "code_commit" not in e]
    assert len(made) == len(seen) - 1
    assert {e["dtype"] for e in made} == {seen[0][0]}


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"regimes": ["stagd"]}, "stagd is not measured; known: warp, tile"),
        ({"rows": [300]}, "300 is not measured; known: 0, 1, 2"),
        ({"edges": ["apart"]}, "apart is not measured; known: none, edges, edges apart"),
        ({"regimes": ["grid"], "rows": [0]}, "nothing is to measure"),
    ],
)
def test_a_part_that_is_none_is_refused_and_nothing_is_lost(
    seen: list[tuple[Any, ...]], tmp_path: Path, part: dict[str, Any], said: str
):
    log = tmp_path / "log.csv"
    log.write_text("earlier")
    with pytest.raises(typer.BadParameter, match=said):
        tune.main(tmp_path / "table.json", log, **part)
    assert not seen
    assert log.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [log]


def test_results_that_lie_otherwise_are_those_of_a_slice(
    seen: list[tuple[Any, ...]], tmp_path: Path
):
    out = tmp_path / "table.json"
    tune.main(out, tmp_path / "log.csv", ["staged"], [0], least_cols=40_000)
    slices = {(d, c) for d, _, c, _, placed in seen if placed is tune.sliced}
    made = [e for e in json.loads(out.read_text())["entries"] if "code_commit" not in e]
    assert slices == {(e["dtype"], e["cols"]) for e in made if e["edges"] == "edges apart"}
    assert len(seen) > len(slices) > 20
    asked = list(tune.requests(90, 132))
    assert {r.rows for r in asked if r.edges == APART} == {MANY}
    assert all(not r.contiguous for r in asked if r.edges == APART)
    x = torch.arange(12.0).view(3, 4)
    view = tune.sliced(x)
    assert torch.equal(view, x)
    assert (view.stride(), view.storage_offset()) == ((5, 1), 1)


@pytest.mark.parametrize("operator", ["log", "chosen", "causal"])
def test_an_operator_has_a_table_of_its_own(
    seen: list[tuple[Any, ...]], tmp_path: Path, operator: str
):
    out = tmp_path / operator / "table.json"
    whole.clear()
    tune.main(out, tmp_path / "log.csv", operator=operator)
    right = neutral.check_log if operator == "log" else tune.check
    assert set(whole) == {(operator != "causal", right)}
    entries = json.loads(out.read_text())["entries"]
    assert {e["cols"] for e in entries} == set(tune.OPERATOR_WIDTHS)
    assert {(e["edges"], e["rows"]) for e in entries} == {("none", None)}
    shapes = [shape for *_, some, _ in seen for shape in some]
    assert shapes
    assert (operator == "log") == bool({s.regime for s in shapes} & set(UNMASKED_REGIMES))
    with pytest.raises(typer.BadParameter, match=r"mask is not measured; known: .*chosen"):
        tune.main(out, tmp_path / "log.csv", operator="mask")


@pytest.mark.parametrize("kind", TUNED)
def test_what_operators_are_timed_with_leaves_a_softmax_as_it_is(
    kind: str, monkeypatch: pytest.MonkeyPatch
):
    def by_torch(x: torch.Tensor, out: torch.Tensor, *, shape: Shape, operator: Operator,
                 mask: torch.Tensor | None) -> torch.Tensor:  # fmt: skip
        assert operator.kind == kind
        assert (mask is not None) == (kind in ("chosen", "added"))
        if isinstance(operator.mask, Causal):
            mask = torch.arange(x.shape[1]) < operator.mask.more
        return out.copy_(composed(
            x, mask, -1, None, operator.log, operator.times, operator.after, False
        ))  # fmt: skip

    monkeypatch.setattr(neutral, "softmax", by_torch)
    run = neutral.run_neutral(kind)
    for shape in ((3, 8), (5, 16), (3, 8)):
        x = torch.randn(shape)
        y = run(x, torch.empty_like(x), Shape("block", (128, 1)))
        torch.testing.assert_close(y, torch.softmax(x, -1))


def test_a_logarithm_is_checked_as_one(monkeypatch: pytest.MonkeyPatch):
    def by_torch(x: torch.Tensor, out: torch.Tensor, *, operator: Operator,
                 **_: object) -> torch.Tensor:  # fmt: skip
        assert operator == Operator(log=True)
        return out.copy_(torch.log_softmax(x.double(), -1))

    monkeypatch.setattr(neutral, "softmax", by_torch)
    run, shape = neutral.run_neutral("log"), Shape("block", (128, 1))
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = (5 * torch.randn(7, 33)).to(dtype)
        y = run(x, torch.empty_like(x), shape)
        assert neutral.check_log(x, y).ok
        # A softmax is none, nor is one in which an element is off or missing.
        assert "of a logarithm exceeds" in neutral.check_log(x, torch.softmax(x, -1)).reason
        for wrong in (y[5, 20] * 1.05, math.nan):
            spoilt = y.clone()
            spoilt[5, 20] = wrong
            assert not neutral.check_log(x, spoilt).ok


def test_causal_rows_are_timed_with_half_of_them_hidden(monkeypatch: pytest.MonkeyPatch):
    asked: list[Causal] = []

    def softmax(x: torch.Tensor, out: torch.Tensor, *, shape: Shape, operator: Operator) -> None:
        assert isinstance(operator.mask, Causal)
        asked.append(operator.mask)

    monkeypatch.setattr(neutral, "softmax", softmax)
    for rows, cols in ((300, 100), (100, 100), (10, 1000)):
        x = torch.empty(rows, cols)
        neutral.run_triangle(x, x, Shape("block", (128, 1)))
        mask = asked[-1]
        seen = [min(cols, row % mask.count + mask.more) for row in range(rows)]
        assert abs(sum(seen) / rows / cols - 0.5) < 0.01, (rows, cols)
