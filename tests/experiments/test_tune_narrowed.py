"""Tuning goes part by part, and does not measure again what was slow at a like place."""

import json
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pandas as pd
import pytest
import typer

from experiments import tried, tune, tune_joined, tuning
from experiments.candidates import candidates
from experiments.pool import pool
from experiments.tune import promising
from experiments.tune_places import BATCH_WIDTHS, MEASURED, NUMBERS
from kernels.frontier.plans import ALIKE, APART, EDGES, NONE, Shape
from kernels.frontier.select import MANY, Request
from tests.experiments.test_tune import Gpu, Processes, seen

__all__ = ["seen"]


def test_what_was_slow_at_a_like_place_is_not_measured_again():
    like = Request(
        "float16", MANY, 4096, NONE, contiguous=True, lines=True, arch=90, multiprocessors=132
    )
    fast, near, slow, new = (Shape("block", (threads, 1)) for threads in (128, 256, 512, 1024))
    known = {("float16", "none", None, 4096): {fast: 1.0, near: 0.96, slow: 0.94}}
    shapes = [slow, new, near, fast]
    bfloat16 = replace(like, dtype="bfloat16")
    edges = replace(like, cols=4097, edges=ALIKE, lines=False)
    for request in (bfloat16, edges):
        assert promising(request, shapes, known) == [new, near, fast]
        assert promising(request, shapes, {}) == shapes
        # Where the fastest cannot go, the next are beside one another.
        assert promising(request, [slow, near], known) == [slow, near]
    # Of another number of rows, another width or another size nothing is known.
    for other in (
        replace(bfloat16, rows=64), replace(bfloat16, cols=2048), replace(edges, dtype="float32"),
        like, replace(edges, edges=APART),
    ):  # fmt: skip
        assert promising(other, shapes, known) == shapes
    known = {("float32", "edges", None, 4097): {slow: 0.5, fast: 1.0}}
    apart = replace(edges, dtype="float32", edges=APART, contiguous=False)
    assert promising(apart, shapes, known) == [new, near, fast]


def test_tuning_narrows_by_places_that_it_measured_before(
    seen: list[tuple[Any, ...]], tmp_path: Path
):
    tune.main(tmp_path / "table.json", tmp_path / "log.csv", rows=[256])
    asked = {(dtype, cols): shapes for dtype, _, cols, shapes, _ in seen}
    order = list(asked)
    for cols in BATCH_WIDTHS:
        # A staged row is faster than all else there.
        staged = [s for s in asked["float16", cols] if s.regime == "staged"]
        assert order.index(("float16", cols)) < order.index(("bfloat16", cols))
        assert order.index(("float16", cols)) < order.index(("float16", cols + 1))
        if staged:
            assert asked["bfloat16", cols] == staged != asked["float16", cols]
        else:
            assert asked["bfloat16", cols] == asked["float16", cols]
    made = json.loads((tmp_path / "table.json").read_text())["entries"]
    measured = {(e["dtype"], e["cols"]) for e in made if e["rows"] == 256}
    assert measured == asked.keys()


def test_what_does_not_compile_is_not_measured(
    seen: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def one_by_one(self: Processes, function: Any, shapes: list[Shape], *others: Any) -> Any:
        assert function is tune.compiled
        for shape, *_ in zip(shapes, *others, strict=True):
            compiled.append(shape)
            yield shape.regime != "block"

    compiled: list[Shape] = []
    monkeypatch.setattr(Processes, "map", one_by_one)
    tune.main(tmp_path / "table.json", tmp_path / "log.csv", rows=[256], edges=["none"])
    measured = [shape for *_, shapes, _ in seen for shape in shapes]
    assert {shape.regime for shape in compiled} > {shape.regime for shape in measured}
    assert [shape for shape in compiled if shape.regime != "block"] == measured


def test_what_a_model_left_out_is_slow_for_those_that_come_after_it(
    seen: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tune, "MEASURED", [(MANY, 2**k) for k in range(10, 18)])
    tune.main(tmp_path / "table.json", tmp_path / "log.csv")
    asked = {
        (d, "edges apart" if placed else EDGES[c % 2], None, c): shapes
        for d, _, c, shapes, placed in seen
    }  # fmt: skip
    places = {tuple(tune.point_of(r).values()): r for r in tune.requests(90, 132)}
    chains = 0
    for point, request in places.items():
        model = tune._model(request)
        if any(shape.regime == "staged" for shape in asked.get(model, ())):
            # Staged rows were fastest there, and all else was slow, or had been before.
            slow = {s for s in candidates(places[model]) if s.regime != "staged"}
            assert not slow.intersection(asked[point])
            chains += bool(tune._model(places[model]))
    assert chains > 10


def test_an_interruption_before_anything_was_measured_leaves_the_table(
    seen: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Processes, "map", interrupted)
    out = tmp_path / "table.json"
    with pytest.raises(KeyboardInterrupt):
        tune.main(out, tmp_path / "log.csv", rows=[256])
    assert not out.exists()
    out.write_text(table := json.dumps({"measured_utc": "", "code_commit": "", "entries": []}))
    with pytest.raises(KeyboardInterrupt):
        tune.main(out, tmp_path / "log.csv", rows=[256])
    assert out.read_text() == table
    assert not seen


def test_a_pool_does_not_wait_for_what_nobody_wants_any_more():
    waiting: list[Future[None]] = []

    def interrupted() -> None:
        with pool("cpu") as processes:
            waiting.extend(processes.submit(sleep, 0.5) for _ in range(200))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert sum(each.cancelled() for each in waiting) > 100


def test_all_parts_make_the_table(
    seen: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    parts, points = [], []
    for commit, numbers in zip("bab", NUMBERS, strict=True):
        monkeypatch.setattr(tuning, "tuned_at", lambda commit=commit: commit * 40)
        monkeypatch.setattr(tune, "tuned_at", lambda commit=commit: commit * 40)
        out = tmp_path / f"tune_{numbers}.json"
        with suppress(KeyboardInterrupt):  # the widest of many
            tune.main(out, tmp_path / "log.csv", numbers=numbers)
        points += [(d, n % MANY, c, p is None) for d, n, c, _, p in seen]
        parts.append(out)
        seen.clear()
    out, log = tmp_path / "made" / "table.json", tmp_path / "tune.csv"
    tune_joined.main(parts, out, log)
    made = json.loads(out.read_text())
    assert made["gpu"] == Gpu.name
    entries = {tuple(e[k] for k in tune.POINT): e for e in made["entries"]}
    assert len(entries) == len(made["entries"])
    of_few = {e.get("code_commit", made["code_commit"]) for p, e in entries.items() if p[2] == 64}
    assert of_few == {"a" * 40}
    # Nothing is of the shipped table, beside which each part was measured.
    measured = {(p[0], p[2] or 0, p[3]) for p in entries}
    assert measured == {(d, n, c) for d, n, c, _ in points if c < 2**21}
    assert {n for n, c in MEASURED if n < MANY} <= {p[2] for p in entries}
    assert len(pd.read_csv(log)) == len(tried.read(tried.beside(out))) > len(entries)
    other = json.loads(parts[0].read_text()) | {"gpu": "NVIDIA B200"}
    parts[0].write_text(json.dumps(other))
    with pytest.raises(typer.BadParameter, match="of NVIDIA B200 and NVIDIA H200, and a table"):
        tune_joined.main(parts, out, log)
    assert json.loads(out.read_text()) == made


def test_a_shape_that_is_as_fast_but_for_noise_stays_in_the_table(tmp_path: Path):
    facts = {"gpu": Gpu.name, "measured_utc": "2026-11-28T00:00:00Z", "code_commit": "b" * 40}
    old = {"measured_utc": "2026-11-23T00:00:00Z", "code_commit": "a" * 40}
    first, so_far, third = (
        {"regime": "block", "sizes": [size, 1], "raw": False} for size in (128, 256, 512)
    )

    def entry(place: tuple[int | None, int], shape: dict[str, Any], fraction: float) -> Any:
        point = {"dtype": "float16", "edges": "none", "rows": place[0], "cols": place[1]}
        return {**point, **shape, "fraction_of_copy": fraction}

    # Of (rows, cols): the fraction of the shape in the table now, None if it is not measured, and
    # in the table; the fastest has 1.
    places = {
        (None, 1024): (0.98, 0.5), (8, 1024): (0.96, 1.2), (8, 2048): (None, 0.99),
        (8, 4096): (None, 0.9), (16, 1024): None,
    }  # fmt: skip
    table = [{**entry(place, so_far, told[1]), **old} for place, told in places.items() if told]
    out, part, log = (tmp_path / name for name in ("table.json", "part.json", "tune.csv"))
    out.write_text(json.dumps({**facts, "entries": table}))
    measured = [entry(place, first, 1.0) for place in places]
    told = [entry(at, so_far, of[0]) for at, of in places.items() if of and of[0]]
    part.write_text(json.dumps({**facts, "entries": measured}))
    tried.keep(
        tried.beside(part),
        [*measured, *told, entry((None, 1024), third, 0.7)],
        facts["code_commit"],
    )
    tune_joined.main([part], out, log)
    made = json.loads(out.read_text())
    assert {key: made[key] for key in facts} == facts
    found = {(e["rows"], e["cols"]): e for e in made["entries"]}
    assert found[None, 1024] == {**entry((None, 1024), so_far, 0.98), "kept": True}
    assert found[8, 1024] == entry((8, 1024), first, 1.0)
    assert found[8, 2048] == {**entry((8, 2048), so_far, 0.99), **old, "kept": True}
    assert found[8, 4096] == entry((8, 4096), first, 1.0)
    assert found[16, 1024] == entry((16, 1024), first, 1.0)
    assert len(tried.read(tried.beside(out))) == len(measured) + len(told) + 1


def test_numbers_that_are_no_part_are_refused(seen: list[tuple[Any, ...]], tmp_path: Path):
    with pytest.raises(typer.BadParameter, match="several is not measured; known: many"):
        tune.main(tmp_path / "table.json", tmp_path / "log.csv", numbers="several")
    assert not seen
