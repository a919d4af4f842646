"""Each verdict of each kind of claim, on hand-made blocks."""

from typing import Any

import pandas as pd
import pytest

from experiments.claim import Claim, Condition, Measure
from experiments.estimate import Beside
from experiments.sweeps import Point
from experiments.verdict import Verdict, assess
from tests.experiments.judged import COLS, FASTER, RATIO, even, measure, told, twice, verdict
from tests.experiments.raw import Row, blocks, stopped


def ratio(*times_ns: float, noise: float = 1.0) -> list[Row]:
    """triton_row in so many ns a block at 1024 columns, triton_online in 100."""
    against = blocks("triton_online", *[100.0] * len(times_ns), cols=1024)
    return [*blocks("triton_row", *times_ns, cols=1024), *against, *twice(noise)]


@pytest.mark.parametrize(
    ("rows", "expected", "value", "reason"),
    [
        (ratio(*[50.0] * 5), "supported", 2, "1 point, 5 blocks"),
        (ratio(*[200.0] * 5), "refuted", 0.5, "1 point, 5 blocks"),
        (ratio(50, 50, 100, 200, 200), "inconclusive", 1, "the interval reaches across"),
        (ratio(*[99.0] * 5, noise=1.02), "inconclusive", 100 / 99, "noise floor of 2.0%"),
        (ratio(*[99.0] * 5, noise=1 / 1.02), "inconclusive", 100 / 99, "noise floor of 2.0%"),
        (ratio(*[101.0] * 5, noise=1.02), "inconclusive", 100 / 101, "noise floor of 2.0%"),
        (ratio(*[99.0] * 5, noise=1.005), "supported", 100 / 99, "1 point"),
        (ratio(50), "inconclusive", 2, "a single block has no interval"),
    ],
    ids=["faster", "slower", "apart", "noise", "noise-back", "noise-slower", "clear", "one"],
)
def test_a_ratio(rows: list[Row], expected: str, value: float, reason: str):
    found = verdict(rows, RATIO, FASTER)
    assert found.estimate is not None
    assert (found.verdict, found.estimate.value) == (expected, pytest.approx(value))
    assert reason in found.reason


def test_without_a_pair_there_is_no_verdict():
    found = verdict([r for r in ratio(50, 50) if "torch" not in r["variant"]], RATIO, FASTER)
    assert (found.verdict, found.reason[:14]) == ("inconclusive", "no noise floor")


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (even("triton_online", 100), "triton_row was not measured in this region"),
        (
            [stopped("triton_row", "skipped", "takes at most 9 columns", cols=1024)],
            "triton_row is skipped: takes at most 9 columns",
        ),
        (
            [
                *even("triton_row", 100),
                stopped("triton_online", "wrong", "relative error 1", cols=1024),
            ],
            "triton_online is wrong: relative error 1",
        ),
    ],
    ids=["absent", "skipped", "wrong"],
)
def test_what_was_not_measured_is_not_applicable(rows: list[Row], reason: str):
    found = verdict([*rows, *twice()], {**RATIO, "cols": (1024, 1024)}, FASTER)
    assert (found.verdict, found.reason, found.estimate) == ("not applicable", reason, None)


def test_a_sweep_that_was_not_measured_is_not_applicable():
    claim = Claim(
        "C01", "S1", "here", "It is so.", measure(**RATIO), Condition.read(FASTER, "ratio"), True
    )
    found = assess(claim, None, Beside(), "test-gpu")
    assert (found.verdict, found.reason) == ("not applicable", "vocab_scaling was not measured")


@pytest.mark.parametrize("name", ["triton_row", "triton_online"])
def test_changed_code_is_stale(name: str):
    rows = ratio(*[50.0] * 5)
    rows = [{**r, "kernel_sha256": "c" * 64} if r["variant"] == name else r for r in rows]
    found = verdict(rows, RATIO, FASTER)
    assert (found.verdict, found.reason) == ("stale", f"measured with earlier code: {name}")
    assert found.estimate is not None


def test_changed_code_of_others_is_not():
    rows = [*ratio(*[50.0] * 5), *blocks("triton_hybrid", 9, cols=1024, kernel_sha256="c" * 64)]
    assert verdict(rows, RATIO, FASTER).verdict == "supported"


def test_a_number_of_another_gpu_is_shown_and_not_judged():
    facts = {"carries_over": False, "because": "of the author's card"}
    found = verdict(ratio(*[50.0] * 5), RATIO, FASTER, **facts)
    assert told(found) == ("not applicable", 2, 2, 2)
    assert found.reason == "needs another GPU: of the author's card"
    assert verdict(ratio(*[50.0] * 5), RATIO, FASTER, gpu="test", **facts).verdict == "supported"
    assert verdict(ratio(*[50.0] * 5), RATIO, FASTER, gpu="a100", **facts).verdict != "supported"


def test_each_timer_has_its_own_verdict():
    calls = [*even("triton_row", 300, timer="call"), *even("triton_online", 200, timer="call")]
    rows = [*ratio(*[50.0] * 5), *calls, *twice(timer="call")]
    assert verdict(rows, RATIO, FASTER).verdict == "supported"
    assert told(verdict(rows, {**RATIO, "timer": "call"}, FASTER)) == (
        "refuted", 2 / 3, 2 / 3, 2 / 3,
    )  # fmt: skip


def at(*statuses: str) -> list[Row]:
    """triton_row at the first columns of COLS, each with its status."""
    rows: list[Row] = []
    for c, status in zip(COLS, statuses, strict=False):
        one = {"cols": c}
        rows += (
            blocks("triton_row", 100, 100, **one)
            if status == "ok"
            else [stopped("triton_row", status, f"it is {status}", block=1, **one)]
        )
    return [*rows, *twice()]


@pytest.mark.parametrize(
    ("statuses", "word", "expected", "share"),
    [
        (("ok", "ok"), "ok", "supported", 1),
        (("ok", "wrong"), "ok", "refuted", 0.5),
        (("ok", "skipped"), "ok", "inconclusive", 0.5),
        (("wrong", "wrong"), "wrong", "supported", 1),
        (("wrong", "ok"), "wrong", "refuted", 0.5),
        (("skipped", "wrong"), "wrong", "inconclusive", 0.5),
        (("skipped", "skipped"), "skipped", "supported", 1),
        (("skipped", "ok"), "skipped", "refuted", 0.5),
    ],
)
def test_a_status(statuses: tuple[str, ...], word: str, expected: str, share: float):
    found = verdict(at(*statuses), {"kind": "status", "variant": "triton_row"}, {"is": word})
    assert found.estimate is not None
    assert (found.verdict, found.estimate.value) == (expected, share)
    if share < 1:
        assert found.reason.startswith("1 of 2 points, ")


def test_a_status_that_nobody_knows_is_not_applicable():
    keys = {"kind": "status", "variant": "triton_row"}
    skipped = verdict(at("skipped", "skipped"), keys, {"is": "ok"})
    assert (skipped.verdict, skipped.reason) == (
        "not applicable", "triton_row is skipped: it is skipped",
    )  # fmt: skip
    absent = verdict(twice(), keys, {"is": "ok"})
    assert (absent.verdict, absent.reason) == (
        "not applicable", "triton_row was not measured in this region",
    )  # fmt: skip
    stale = [{**r, "kernel_sha256": "c" * 64} for r in at("ok")]
    assert verdict(stale, keys, {"is": "ok"}).verdict == "stale"


def test_wrong_in_one_block_is_wrong():
    rows = [*at("ok"), stopped("triton_row", "wrong", "relative error 1", block=4, cols=1024)]
    found = verdict(rows, {"kind": "status", "variant": "triton_row"}, {"is": "ok"})
    assert (found.verdict, found.reason) == (
        "refuted", "0 of 1 point, wrong at 4 x 1,024: relative error 1",
    )  # fmt: skip


def test_errors_are_compared_at_their_largest():
    rows = [
        *even("triton_row", 100, max_rel_err=2e-7),
        *even("triton_online", 100, max_rel_err=4e-7),
        stopped("triton_online", "wrong", "relative error", cols=2048, max_rel_err=8e-7),
        *twice(),
    ]
    alone = {"kind": "error", "variant": "triton_row"}
    assert told(verdict(rows, alone, {"below": 1e-6})) == ("supported", 2e-7, 2e-7, 2e-7)
    assert verdict(rows, alone, {"below": 1e-7}).verdict == "refuted"
    both = {**alone, "against": "triton_online"}
    assert told(verdict(rows, both, {"below": 0.5})) == ("supported", 0.25, 0.25, 0.25)
    absent = verdict(rows, {**alone, "against": "triton_hybrid"}, {"below": 1})
    assert absent.verdict == "not applicable"


BUILT = pd.DataFrame(
    [
        ("triton_row", "sm_80", "float32", 1024, "ok", "", 22, 0),
        ("triton_row", "sm_80", "float32", 65_536, "ok", "", 128, 796),
        ("triton_row", "sm_80", "float32", 65_536, "ok", "", 200, 1200),  # by edges: not counted
        ("triton_row", "sm_90", "float32", 1024, "ok", "", 99, 99),
        ("triton_row", "sm_80", "float16", 1024, "ok", "", 98, 98),
        ("triton_online", "sm_80", "float32", 0, "failed", "error: no such thing", 0, 0),
    ],
    columns=[
        "variant", "arch", "dtype", "cols_held", "status", "reason", "registers", "spill_bytes",
    ],
).assign(edges=lambda t: t["registers"] == 200)  # fmt: skip


def built(keys: dict[str, Any], condition: dict[str, Any]) -> Verdict:
    asked = Measure(
        **{
            "kind": "resource", "variant": "triton_row", "arch": "sm_80", "dtype": "float32",
            "quantity": "spill_bytes", "over": "max", **keys,
        }
    )  # fmt: skip
    condition_ = Condition.read(condition, "resource")
    return assess(
        Claim("C01", "S5", "here", "So.", asked, condition_, True), None, Beside(BUILT), "gpu"
    )


@pytest.mark.parametrize(
    ("keys", "condition", "expected", "value"),
    [
        ({"cols": (1, 1024)}, {"below": 1}, "supported", 0),
        ({}, {"below": 1}, "refuted", 796),
        ({"cols": (65_536, 65_536), "over": "min"}, {"above": 0}, "supported", 796),
        ({"over": "min"}, {"above": 0}, "refuted", 0),
        ({"quantity": "registers"}, {"between": [128, 255]}, "supported", 128),
    ],
)
def test_what_the_build_says(
    keys: dict[str, Any], condition: dict[str, Any], expected: str, value: float
):
    assert told(built(keys, condition)) == (expected, value, value, value)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"arch": "sm_100"}, "not built for sm_100"),
        ({"variant": "triton_online"}, "triton_online does not compile: error: no such thing"),
        ({"cols": (2048, 4096)}, "the build has no triton_row that holds so many columns"),
    ],
)
def test_what_the_build_does_not_say(keys: dict[str, Any], reason: str):
    found = built(keys, {"below": 1})
    assert (found.verdict, found.reason) == ("not applicable", reason)


COUNTED = pd.DataFrame(
    [
        ("triton_row", 8192, "ok", "", 1.0, 1.0, False),
        ("triton_row", 131_072, "ok", "", 2.5, 3.3, False),
        ("torch_naive", 8192, "ok", "", 5.0, 3.0, True),
        ("torch_naive", 131_072, "wrong", "off", None, None, True),
    ],
    columns=["variant", "cols", "status", "reason", "read", "write", "stale"],
).assign(
    dtype="float32", rows=2, ideal_bytes=2e9, dram_read_bytes=lambda t: t["read"] * 1e9,
    dram_write_bytes=lambda t: t["write"] * 1e9,
)  # fmt: skip


def counted(keys: dict[str, Any], condition: dict[str, Any]) -> Verdict:
    given = {"kind": "traffic", "variant": "triton_row", "dtype": "float32", "over": "mean", **keys}
    stated = Condition.read(condition, "traffic")
    claim = Claim("C01", "S5", "here", "So.", Measure(**given), stated, True)
    return assess(claim, None, Beside(counts=COUNTED), "gpu")


@pytest.mark.parametrize(
    ("keys", "condition", "expected", "value"),
    [
        ({"cols": (8192, 8192)}, {"below": 1.1}, "supported", 1),
        ({"over": "max"}, {"between": [2, 2.5]}, "refuted", 2.9),
        ({"over": "min"}, {"below": 1.1}, "supported", 1),
        ({}, {"below": 1.1}, "refuted", 2.9**0.5),
        ({"variant": "torch_naive", "cols": (1, 8192)}, {"above": 3}, "stale", 4),
        ({"against": "torch_naive", "cols": (1, 8192)}, {"below": 0.3}, "stale", 0.25),
    ],
)
def test_what_ncu_counts(
    keys: dict[str, Any], condition: dict[str, Any], expected: str, value: float
):
    found = counted(keys, condition)
    assert found.verdict == expected
    assert found.estimate
    assert found.estimate.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"dtype": "float16"}, "triton_row was not counted in this region"),
        ({"cols": (64, 64)}, "triton_row was not counted in this region"),
        ({"variant": "torch_naive"}, "torch_naive is wrong: off"),
        ({"against": "torch_naive"}, "torch_naive is wrong: off"),
    ],
)
def test_what_ncu_does_not_count(keys: dict[str, Any], reason: str):
    found = counted(keys, {"below": 1})
    assert (found.verdict, found.reason) == ("not applicable", reason)


def test_where_nothing_was_counted_the_reason_says_how():
    measure = Measure("traffic", "triton_row", "float32", over="max")
    claim = Claim(
        "C01", "S5", "here", "So.", measure, Condition.read({"below": 1}, "traffic"), True
    )
    found = assess(claim, None, Beside(), "gpu")
    assert (found.verdict, found.reason) == (
        "not applicable", "nothing was counted here: snakemake --cores 1 profile"
    )  # fmt: skip


THINNED = (Point("float32", 1024, 3072),)  # between COLS, and measured by a full run alone


@pytest.mark.parametrize(
    ("keys", "condition", "whole", "thinned"),
    [
        ({**RATIO, "over": "min"}, {"above": 1}, "supported", "inconclusive"),
        ({**RATIO, "over": "min"}, {"above": 9}, "refuted", "refuted"),
        ({**RATIO, "over": "mean"}, {"above": 1}, "supported", "supported"),
        ({"kind": "flatness", "variant": "triton_row"}, {"below": 99}, "supported", "inconclusive"),
        ({"kind": "flatness", "variant": "triton_row"}, {"below": 1.01}, "refuted", "refuted"),
        ({"kind": "growth", "variant": "triton_row"}, {"above": 1}, "supported", "supported"),
        ({"kind": "status", "variant": "triton_row"}, {"is": "ok"}, "supported", "inconclusive"),
        (
            {"kind": "crossover", "variant": "triton_row", "against": "triton_online"},
            {"is": "always"}, "supported", "inconclusive",
        ),
        (
            {"kind": "crossover", "variant": "triton_row", "against": "triton_online"},
            {"between": [2048, 4096]}, "refuted", "inconclusive",
        ),
    ],
)  # fmt: skip
def test_what_every_point_must_bear_out_is_open_on_a_thinner_grid(
    keys: dict[str, Any], condition: dict[str, Any], whole: str, thinned: str
):
    rows = [*even("triton_row", 50, 50, 50, 50), *even("triton_online", *[100] * 4), *twice()]
    rows = [{**r, "rows": 1024} for r in rows]
    assert verdict(rows, keys, condition).verdict == whole
    found = verdict(rows, keys, condition, THINNED)
    assert found.verdict == thinned
    assert ("could say otherwise" in found.reason) == (thinned != whole)
