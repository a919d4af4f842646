"""Tuning goes part by part, and does not measure again what was slow at a like place."""

import ast
import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from experiments import tune
from experiments.tune import promising
from kernels.frontier.plans import ALIKE, APART, NONE, Shape
from kernels.frontier.select import MANY, Request
from tests.commands import ROOT
from tests.experiments.test_tune import Processes, seen

__all__ = ["seen"]
RULES = ROOT / "workflow/rules/tune.smk"


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
    for cols in tune.BATCH_WIDTHS:
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


def test_the_parts_that_snakemake_runs_are_all_of_it(seen: list[tuple[Any, ...]], tmp_path: Path):
    rule = re.search(r"^NUMBERS = (.*)$", RULES.read_text(), re.MULTILINE)
    assert rule
    assert ast.literal_eval(rule[1]) == tuple(tune.NUMBERS)
    out, log, points = tmp_path / "table.json", tmp_path / "log.csv", []
    for numbers in tune.NUMBERS:
        with suppress(KeyboardInterrupt):  # the widest of many
            tune.main(out, log, numbers=numbers)
        points += [(number, cols) for _, number, cols, *_ in seen if number != MANY]
        seen.clear()
    assert {(n, c) for n, c in tune.MEASURED if n < MANY} <= set(points)
    # Each part left what others had written.
    made = json.loads(out.read_text())["entries"]
    assert {e["rows"] or 0 for e in made} == {n for some in tune.NUMBERS.values() for n in some}
    with pytest.raises(typer.BadParameter, match="several is not measured; known: many"):
        tune.main(out, log, numbers="several")
