"""What of the operators is watched: every kernel, at every threshold, with results checked."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch

from experiments.family import OPERATORS as MEASURED
from experiments.launches import Gpu
from experiments.sanitized import cases as of_regime
from experiments.sanitized import named
from experiments.sanitizer import FILTERS, KERNELS, OPERATORS
from experiments.watched import OPERATORS as WATCHED
from experiments.watched import Case, backward, choice, columns, cross_entropy, rows
from experiments.watched.case import NARROW, astride, differs
from experiments.watched.guarded import Guarded
from kernels.compiled import Job
from kernels.frontier import choice_plans
from kernels.frontier.columns_plans import REGIMES as OF_COLUMNS
from kernels.frontier.compiler import compile_plan
from kernels.frontier.plans import HERE, REGIMES, UNMASKED_REGIMES, VECTOR_BYTES, Plan
from kernels.frontier.select import DEFAULT, TABLES, shape_of
from kernels.registry import DTYPES, ELEMENT_BYTES

H200 = Gpu(DEFAULT, 90, 132)
A100 = Gpu("nvidia-a100", 80, 108)
# A kernel's name stands before its arguments, behind what bounds its registers.
BOUNDS = r"__launch_bounds__\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
KERNEL = re.compile(rf"__global__\s+void\s+(?:{BOUNDS}\s+)?(\w+)\(")


@cache
def cases(name: str) -> tuple[Case, ...]:
    return tuple(WATCHED[name](H200))


def plans_of(name: str) -> Iterator[tuple[Case, Plan]]:
    yield from ((case, plan) for case in cases(name) for plan in case.plans)


def test_operators_have_the_names_of_those_that_are_measured():
    assert tuple(WATCHED) == OPERATORS
    assert set(OPERATORS) <= set(MEASURED)
    assert not set(OPERATORS) & set(REGIMES)


def test_every_file_of_kernels_is_launched():
    launched = {plan.file.name for name in OPERATORS for _, plan in plans_of(name)}
    launched |= {c.plan.file.name for regime in REGIMES for c in of_regime(regime, H200)}
    assert launched == {path.name for path in HERE.glob("*.cu")}


def test_the_filters_let_every_kernel_through():
    names = {n for path in HERE.glob("*.cu") for n in KERNEL.findall(path.read_text())}
    assert names == set(KERNELS)
    assert len(FILTERS) == len(set(KERNELS))


@pytest.mark.parametrize(
    "plan", [choice_plans.CHOSEN, choice_plans.SAMPLE[False], cases("columns")[0].plans[0]], ids=str
)
def test_a_compiled_kernel_has_a_filters_name(plan: Plan):
    symbol = compile_plan(plan, Job("frontier", "float32", "sm_90")).kernels[0].symbol
    assert any(symbol.startswith(each.removeprefix("kns=")) for each in FILTERS), symbol


def test_every_kind_of_kernel_is_launched():
    def regimes(name: str, **told: Any) -> set[str]:
        return {
            plan.shape.regime
            for _, plan in plans_of(name)
            if all(getattr(plan, key) == value for key, value in told.items())
        }

    assert regimes("factors") == set(REGIMES)
    assert regimes("masks") == set(REGIMES) - set(UNMASKED_REGIMES)
    for log in (False, True):
        assert regimes("columns", log=log) >= {"held", "results"}
    assert regimes("columns") == set(OF_COLUMNS)
    exchanging = {p.shape.sizes[3] for _, p in plans_of("columns") if p.shape.regime == "held"}
    assert {1, 2, 4, 8, 16} <= exchanging
    assert {1, 2, 4, 8, 16} >= exchanging
    assert {p.shape.sizes[0] for _, p in plans_of("columns")} == {2, 4, 8, 16}
    given = {of.type if of else "" for of in backward.GRADIENTS.values()}
    for regime in ("warp", "block", "cluster", "stream"):
        mine = [p for _, p in plans_of("backward") if p.shape.regime == regime]
        assert {"".join(p.given) for p in mine} == given, regime
        assert {p.edges for p in mine} == {0, 1}, regime
    for gradient, smooth in ((True, True), (True, False), (False, True), (False, False)):
        wanted = {"warp", "stream"} | ({"block", "cluster"} if gradient else set())
        found = regimes("cross_entropy", gradient=gradient, smooth=smooth)
        assert found - {"targets", "scale"} == wanted
    assert {"targets", "scale"} <= regimes("cross_entropy")
    both = {plan for name in ("topk_softmax", "sample") for _, plan in plans_of(name)}
    assert both == set(choice_plans.PLANS)


@pytest.mark.parametrize("name", OPERATORS)
def test_every_dtype_is_launched_and_the_tensors_are_small(name: str):
    some = cases(name)
    assert {case.dtype for case in some} == set(DTYPES)
    assert all(case.rows * case.cols <= 2**17 for case in some)
    # A process takes a tenth of a second a launch under a tool.
    assert len(some) <= 200
    assert sum(case.rows * case.cols for case in some) < 3.5e6


def recorded(folder: str) -> Iterator[tuple[str, bool, int, int]]:
    """Dtype, edges, the last columns of a shape, and the step to the next, by the table itself."""
    entries = json.loads((TABLES / folder / f"{DEFAULT}.json").read_text())["entries"]
    for dtype in DTYPES:
        for edges in (False, True):
            mine = [e for e in entries if e["dtype"] == dtype and (e["edges"] != "none") == edges]
            mine.sort(key=lambda e: e["cols"])
            for entry, wider in pairwise(mine):
                if shape_of(entry) != shape_of(wider) and entry["cols"] <= NARROW:
                    step = 1 if edges else VECTOR_BYTES // ELEMENT_BYTES[dtype]
                    yield dtype, edges, entry["cols"], step


@pytest.mark.parametrize(
    ("folder", "name", "dtypes", "what"),
    [
        ("factors", "factors", ("float32", "bfloat16"), "factors"),
        ("causal", "masks", ("bfloat16",), "causal"),
        ("chosen", "masks", ("float32",), "boolean mask"),
        ("added", "masks", ("float32", "bfloat16"), "added mask"),
        ("backward", "backward", ("float32", "bfloat16"), ""),
        ("cross_entropy", "cross_entropy", ("float32", "bfloat16"), "loss and gradient"),
    ],
)
def test_every_threshold_of_a_table_is_launched_from_both_sides(
    folder: str, name: str, dtypes: tuple[str, ...], what: str
):
    found = {
        (case.dtype, bool(plan.edges), case.cols)
        for case, plan in plans_of(name)
        if case.what.startswith(what)
    }
    thresholds = [each for each in recorded(folder) if each[0] in dtypes]
    assert len(thresholds) >= 4 * len(dtypes)
    for dtype, edges, cols, step in thresholds:
        for near in (cols - step, cols, cols + step):
            assert (dtype, edges, near) in found, (dtype, edges, near)


def test_the_thresholds_of_rules_are_launched_from_both_sides():
    # A thread holds 8 units of 16 bytes; four in a warp of a cross-entropy without a gradient.
    of_columns = {case.cols for case in cases("columns")}
    assert {7, 8, 9} <= of_columns
    # From 4097 rows of two units on the rows are read twice.
    assert {4095, 4096, 4097} <= of_columns
    losses = {c.cols for c in cases("cross_entropy") if c.what == "loss" and c.dtype == "float32"}
    assert {508, 512, 516, 2044, 2048, 2052} <= losses
    share, of_top = choice_plans.LEAST_SHARE, choice_plans.LEAST_TOP_SHARE
    for name, own in (("topk_softmax", of_top), ("sample", of_top), ("sample", share)):
        assert {own, own + 1} <= {case.cols for case in cases(name)}


def test_widths_lie_astride_what_changes():
    assert astride(lambda cols: cols > 10, most=20) == [9, 10, 11]
    assert astride(lambda cols: cols > 12, step=4, most=20) == [8, 12, 16]
    assert astride(lambda cols: cols // 6, most=12) == [4, 5, 6, 10, 11, 12]
    assert astride(lambda cols: 0) == []


@pytest.mark.parametrize("name", OPERATORS)
def test_a_gpu_before_hopper_launches_what_it_can_run(name: str):
    some = list(named(name, A100))
    assert some
    clusters = [c for c in some for p in c.plans if p.shape.regime in ("cluster", "chunks", "tile")]
    assert not clusters


@pytest.mark.parametrize("name", OPERATORS)
def test_results_are_right_where_torch_computes_them(name: str):
    some = cases(name)
    every = max(1, len(some) // 40)
    for seed, case in enumerate(some):
        if seed % every == 0:
            assert case.run(seed, "cpu") == "", case


def spoilt(given: Callable[..., Any]) -> Callable[..., Any]:
    """``given`` with the last element of its last result off by one."""

    def call(*arguments: Any, **options: Any) -> Any:
        results = given(*arguments, **options)
        last = results[-1] if isinstance(results, tuple) else results
        last.view(-1)[-1] += 1
        return results

    return call


@pytest.mark.parametrize(
    ("name", "module", "function"),
    [
        ("factors", rows, "composed"),
        ("masks", rows, "composed"),
        ("backward", backward, "composed_backward"),
        ("cross_entropy", cross_entropy.ops, "cross_entropy_grad"),
        ("topk_softmax", choice.topk, "operator"),
        ("sample", choice.sampling, "operator"),
    ],
)
def test_a_wrong_result_is_told(
    name: str, module: Any, function: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, function, spoilt(getattr(module, function)))
    case = next(case for case in cases(name) if case.dtype == "float32" and case.cols > 50)
    assert case.run(0, "cpu") != ""


def test_wrong_columns_are_told(monkeypatch: pytest.MonkeyPatch):
    for log, function in ((False, "softmax"), (True, "log_softmax")):
        case = next(c for c in cases("columns") if c.what.startswith("logarithm") == log)
        with monkeypatch.context() as patched:
            patched.setattr(columns.torch, function, halved(getattr(torch, function)))
            assert case.run(0, "cpu") != ""


def halved(given: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``given``, whose results in the dtype that is launched are half as large."""
    return lambda x, dim: given(x, dim) * (1.0 if x.dtype == torch.float64 else 0.5)


def test_a_difference_is_told_with_its_place():
    exact = torch.tensor([[1.0, torch.nan]], dtype=torch.float64)
    near = torch.tensor([[1.01, torch.nan]])
    assert differs("values", near, exact, 0.02, 0.0) == ""
    assert differs("values", near, exact, 0.0, 0.02) == ""
    said = differs("values", near, exact, 0.001, 0.001)
    assert said == "1 of 2 values are wrong; the first, (0, 0), is 1.01 where float64 has 1"
    assert differs("values", torch.zeros(1, 2), exact, 1.0, 0.0).endswith("where float64 has nan")


def test_targets_that_are_counted_wrongly_are_told(monkeypatch: pytest.MonkeyPatch):
    count = cross_entropy.ops.cross_entropy_targets

    def said(of_weight: float, of_place: int) -> str:
        def odd(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
            weight, place = count(*arguments)
            return weight * of_weight, place + of_place

        monkeypatch.setattr(cross_entropy.ops, "cross_entropy_targets", odd)
        return cross_entropy.run_targets(100, "int64", "cpu", 0)

    assert said(1.0, 0) == ""
    assert said(1.1, 0).startswith("1 / 66 targets is ")
    assert said(1.0, 1) == "the first target that is no class is 50, not 51"


def test_what_is_written_beside_results_is_told():
    def guarded() -> tuple[Guarded, torch.Tensor, torch.Tensor]:
        made = Guarded("cpu")
        x = made.given(torch.ones(2, 3), before=1, gaps=(2, 0))
        return made, x, made.wanted((2, 3), torch.float32, before=1, gaps=(2, 0))

    made, x, out = guarded()
    assert x.tolist() == [[1.0] * 3] * 2
    assert out.isnan().all()
    out.fill_(0.0)
    assert made.fault() == ""
    for place in (0, 4, 5):  # before the rows, and between them
        made, _, out = guarded()
        memory = out.as_strided((9,), (1,), 0)
        memory[place] = 0.0
        assert made.fault() == "it wrote outside of its results"
    made, x, _ = guarded()
    x[1, 1] = 2.0
    assert made.fault() == "it changed its input"
    ids = Guarded("cpu").wanted((3,), torch.int64)
    assert (ids < 0).all()
