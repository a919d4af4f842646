"""What tuning of the gradient measures: shapes that hold a width, of which the fastest is taken."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments import tune_backward, tuning
from experiments.tried import beside
from experiments.tune_backward import Width, candidates, widths
from kernels.frontier import backward_plans, select
from kernels.frontier.backward_plans import backward_plan, plan_of
from kernels.frontier.measured import table
from kernels.frontier.plans import VECTOR_BYTES, Shape, vectors_from_line
from tests.experiments.test_tune import Gpu, Processes


def test_every_width_has_candidates_that_hold_it():
    for width in widths():
        shapes = list(candidates(width))
        # Fewer lanes than these have edges are no candidates: narrow rows then go by rule.
        narrow = width.edges and width.cols * width.size < 512
        assert shapes or narrow, width
        for shape in shapes:
            plan = plan_of(shape, width.cols, width.size, width.edges)
            vectors = vectors_from_line(width.cols, width.size, width.edges)
            if shape.regime == "warp":
                vectors = width.cols * width.size // VECTOR_BYTES
            blocks = shape.sizes[1] if shape.regime in ("cluster", "grid") else 1
            if shape.regime != "stream":
                assert shape.sizes[0] * blocks * plan.held >= vectors
                assert 0 < plan.held - plan.stashed <= tune_backward.MOST_HELD + width.edges
            if shape.regime in ("block", "cluster", "grid"):
                least = shape.sizes[1 if shape.regime == "block" else 2]
                assert shape.sizes[0] * least <= 2048
                assert plan.ring_bytes * least < tune_backward.SHARED
    # Of the widest rows that are held registers have room for one.
    wide = [s.sizes for s in candidates(Width("float32", 0, 262_144)) if s.regime == "cluster"]
    assert (512, 16, 1) in wide
    assert max(sizes[2] for sizes in wide if len(sizes) == 3) == 1
    assert (512, 16, 2, 2) in wide
    # And with edges, whose rows take a vector more from a thread than whole ones.
    for width in (Width("float32", 1, 131_073), Width("bfloat16", 1, 262_145)):
        assert Shape("cluster", (256, 16, 2)) in candidates(width)


def test_the_fastest_of_each_width_is_what_a_gradient_then_goes_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def measure(width: Width, shapes: list[Shape], _: Any) -> dict[Shape, float]:
        return {shape: 0.5 + (shape.sizes == (256, 3)) / 4 for shape in shapes}

    monkeypatch.setattr(tune_backward.torch.cuda, "get_device_properties", lambda _: Gpu)
    monkeypatch.setattr(tuning, "Flush", lambda _: None)
    monkeypatch.setattr(tuning, "architecture", lambda: "sm_90")
    monkeypatch.setattr(tuning, "pool", lambda _: Processes())
    monkeypatch.setattr(tune_backward, "measure", measure)
    out, log = tmp_path / "backward" / "nvidia-h200.json", tmp_path / "log.csv"
    tune_backward.main(out, log)
    assert set(pd.read_csv(log)["fraction_of_add"]) == {0.5, 0.75}
    kept = pd.read_csv(beside(out))
    assert kept.drop(columns="code_commit").equals(pd.read_csv(log))
    assert set(kept["code_commit"]) == {json.loads(out.read_text())["code_commit"]}
    entries = json.loads(out.read_text())["entries"]
    chosen = {(e["dtype"], e["edges"], e["cols"]): tuple(e["sizes"]) for e in entries}
    assert chosen["float32", "none", 4096] == (256, 3)

    before = backward_plan(3000, 4, 0, 90, 132)
    monkeypatch.setattr(select, "TABLES", tmp_path)
    table.cache_clear()
    try:
        for gpu in ("nvidia-h200", "another-hopper"):
            for cols, edges in ((4096, 0), (3000, 0), (4097, 1)):
                plan = backward_plan(cols, 4, edges, 90, 132, gpu)
                assert plan.shape == Shape("block", (256, 3))
                assert plan.held == -(-vectors_from_line(cols, 4, edges) // 256)
        # Wider than all that was measured, or before Hopper and not measured: by rule.
        for cols, arch in ((2**20 + 1000, 90), (3000, 80)):
            rule = backward_plans._by_rule(cols, 4, 0, arch)
            assert backward_plan(cols, 4, 0, arch, 132, "another").shape == rule
    finally:
        table.cache_clear()
    assert before.shape != Shape("block", (256, 3)) or before.held
