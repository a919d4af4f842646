"""What tuning of losses measures: shapes that hold a row, of which the fastest is taken."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from experiments import tune_cross_entropy, tuning
from experiments.tune_cross_entropy import (
    MOST_HELD,
    NEAR,
    Width,
    candidates,
    relative_error,
    widths,
)
from experiments.tuning import write_table
from kernels.frontier import cross_entropy_plans, select
from kernels.frontier.cross_entropy_plans import cross_entropy_plan, plan_of
from kernels.frontier.measured import table
from kernels.frontier.plans import Shape, vectors_from_line
from tests.experiments.test_tune import Gpu, Processes


def test_every_width_has_candidates_that_hold_it_beside_the_rules_choice():
    for width in widths():
        rule, *others = dict.fromkeys(candidates(width, 90))
        assert rule == cross_entropy_plans.by_rule(width.cols, width.size, width.edges, 90, True)
        assert others, width
        vectors = vectors_from_line(width.cols, width.size, width.edges)
        for shape in others:
            plan = plan_of(shape, width.cols, width.size, width.edges, True, False, "int64")
            assert shape.sizes[0] * plan.blocks * plan.held >= vectors
            assert 0 < plan.held <= MOST_HELD
            assert shape.sizes[0] * shape.sizes[-1] <= 2048


@pytest.mark.parametrize("dtype", NEAR)
def test_rounded_gradients_are_right_and_others_are_not(dtype: str):
    torch.manual_seed(0)
    x, target = torch.randn(4, 50_257).to(getattr(torch, dtype)), torch.randint(50_257, (4,))
    leaf = x.double().requires_grad_()
    torch.nn.functional.cross_entropy(leaf, target, reduction="sum").backward()
    assert leaf.grad is not None
    grad = leaf.grad.to(x.dtype)
    assert relative_error(x, target, grad) < NEAR[dtype]
    for wrong in (grad.roll(1, 0), grad * 1.05, torch.zeros_like(grad)):
        assert relative_error(x, target, wrong) > NEAR[dtype]
    grad[3, 17] += 2 / 50_257
    assert relative_error(x, target, grad) > NEAR[dtype]


def test_a_table_of_nothing_is_refused_and_the_earlier_one_is_kept(tmp_path: Path):
    out = tmp_path / "table.json"
    out.write_text("earlier")
    with pytest.raises(ValueError, match="no candidate gave right results"):
        write_table(out, [])
    assert out.read_text() == "earlier"


def test_the_fastest_of_each_width_is_what_a_gradient_then_goes_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fast = Shape("cluster", (256, 4, 5))

    def measure(width: Width, shapes: list[Shape], _: Any) -> dict[Shape, float]:
        return {shape: 0.5 + (shape == fast) / 4 for shape in shapes}

    monkeypatch.setattr(tune_cross_entropy.torch.cuda, "get_device_properties", lambda _: Gpu)
    monkeypatch.setattr(tuning, "Flush", lambda _: None)
    monkeypatch.setattr(tuning, "architecture", lambda: "sm_90")
    monkeypatch.setattr(tuning, "pool", lambda _: Processes())
    monkeypatch.setattr(tune_cross_entropy, "measure", measure)
    out, log = tmp_path / "cross_entropy" / "nvidia-h200.json", tmp_path / "log.csv"
    tune_cross_entropy.main(out, log)
    assert set(pd.read_csv(log)["fraction_of_copy"]) == {0.5, 0.75}
    entries = json.loads(out.read_text())["entries"]
    assert {(e["dtype"], e["edges"], e["cols"]) for e in entries} == {
        (w.dtype, ("none", "edges")[w.edges], w.cols) for w in widths()
    }

    monkeypatch.setattr(select, "TABLES", tmp_path)
    table.cache_clear()
    try:
        for gpu in ("nvidia-h200", "another-hopper"):
            for cols, edges, smooth in ((32_000, 0, False), (31_000, 0, True), (32_001, 1, False)):
                plan = cross_entropy_plan(4096, cols, 2, edges, 90, 132, True, smooth, "int64", gpu)
                assert (plan.shape, plan.smooth) == (fast, smooth)
        # Without a gradient, of a warp, wider than all measured, or not on a Hopper: by rule.
        for cols, arch, gradient in (
            (32_000, 90, False), (1000, 90, True), (2**20, 90, True), (32_000, 80, True),
        ):  # fmt: skip
            rule = cross_entropy_plans.by_rule(cols, 2, 0, arch, gradient)
            plan = cross_entropy_plan(
                4096, cols, 2, 0, arch, 132, gradient, False, "int64", "another"
            )
            assert plan.shape.regime == rule.regime
            assert plan.shape.sizes[0] == rule.sizes[0]
    finally:
        table.cache_clear()
