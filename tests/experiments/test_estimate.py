"""Numbers of hand-made blocks, worked out here, and what they make of a condition."""

import math
from typing import Any

import pytest

from experiments.sweeps import Point
from tests.experiments.judged import (
    COLS,
    FASTER,
    RATIO,
    even,
    told,
    twice,
    verdict,
)
from tests.experiments.raw import Row, blocks, row, stopped

CROSSOVER = {"kind": "crossover", "variant": "triton_row", "against": "triton_online"}


def test_ratios_are_formed_inside_a_block():
    rows = [
        *blocks("triton_row", 200, 800, 300, cols=1024),
        *blocks("triton_online", 400, 400, 600, cols=1024),
        *twice(),
    ]
    # Of 2, 0.5 and 2; the ratio of the medians is 4/3.
    assert told(verdict(rows, RATIO, FASTER)) == ("inconclusive", 2, 0.5, 2)


@pytest.mark.parametrize(
    ("over", "value", "place"),
    [("min", 0.5, ", the least at 4 x 2,048"), ("max", 4, ", the most at 4 x 4,096"),
     ("mean", 4 ** (1 / 3), "")],
)  # fmt: skip
def test_a_region_is_summarised(over: str, value: float, place: str):
    # Speeds of 2, 0.5, 4 and, outside the region, 10.
    rows = [*even("triton_row", 50, 200, 25, 10), *even("triton_online", *[100] * 4), *twice()]
    found = verdict(rows, {**RATIO, "over": over, "cols": (1024, 4096)}, {"above": 0.1})
    assert told(found) == ("supported", value, value, value)
    assert found.reason == f"3 points, 5 blocks{place}"


def test_a_region_has_rows_and_one_dtype():
    within = [*even("triton_row", *[50] * 4, rows=64), *even("triton_online", *[100] * 4, rows=64)]
    rows = [*within, *twice(rows=64)]
    others: list[dict[str, Any]] = [{"rows": 63}, {"rows": 65}, {"rows": 64, "dtype": "float16"}]
    for outside in others:
        slower = [*even("triton_row", 999, **outside), *even("triton_online", 100, **outside)]
        rows += [*slower, *twice(3, **outside)]
    found = verdict(rows, {**RATIO, "over": "min", "rows": (64, 64)}, FASTER)
    assert told(found) == ("supported", 2, 2, 2)
    assert found.reason == "4 points, 5 blocks, the least at 64 x 1,024"


def test_the_noise_floor_is_that_of_the_same_summary():
    # The pair differs by 10% at one of four columns, outside the region of the second claim.
    pair = [*twice(cols=COLS[:3]), *twice(1.1, cols=COLS[3:])]
    rows = [*even("triton_row", *[96] * 4), *even("triton_online", *[100] * 4), *pair]
    least = verdict(rows, {**RATIO, "over": "min"}, FASTER)
    assert least.verdict == "inconclusive"
    assert least.estimate is not None
    assert least.estimate.noise == pytest.approx(0.1)
    mean = verdict(rows, RATIO, FASTER)
    assert mean.verdict == "supported"
    assert mean.estimate is not None
    assert mean.estimate.noise == pytest.approx(1.1**0.25 - 1)
    assert verdict(rows, {**RATIO, "over": "min", "cols": (1, 4096)}, FASTER).verdict == "supported"


def test_what_was_not_timed_is_left_out_with_its_reason():
    wrong = stopped("triton_row", "wrong", "relative error 0.5", block=4, cols=2048)
    rows = [*even("triton_row", 50, 400, 50, 50), wrong, *even("triton_online", *[100] * 4)]
    pair = [*twice(cols=(1024, 4096, 8192)), *twice(3, cols=(2048,))]
    found = verdict([*rows, *pair], {**RATIO, "over": "min"}, FASTER)
    assert found.verdict == "supported"
    assert (
        "3 points, 5 blocks (1 left out: triton_row is wrong: relative error 0.5)" in found.reason
    )


def test_a_block_that_lacks_a_point_does_not_count():
    rows = [*even("triton_row", 50), *blocks("triton_row", *[50] * 4, cols=2048)]
    found = verdict([*rows, *even("triton_online", 100, 100), *twice()], RATIO, FASTER)
    assert found.estimate is not None
    assert (found.estimate.n_points, found.estimate.n_blocks) == (2, 4)


def test_points_of_a_full_run_that_are_missing_are_told():
    rows = [*even("triton_row", *[50] * 4), *even("triton_online", *[100] * 4), *twice()]
    thin = (Point("float32", 4, 512), Point("float32", 4, 3000), Point("float16", 4, 1000))
    found = verdict(rows, RATIO, FASTER, thin)
    assert (found.verdict, found.reason) == (
        "supported", "4 points, 5 blocks (2 not measured)",
    )  # fmt: skip
    assert found.estimate is not None
    assert (found.estimate.n_points, found.estimate.n_asked) == (4, 6)


@pytest.mark.parametrize(("cols", "verdict_"), [(512, "not applicable"), (3000, "refuted")])
def test_growth_needs_the_ends_of_its_region(cols: int, verdict_: str):
    rows = [*even("triton_row", *[50] * 4), *twice()]
    growth = {"kind": "growth", "variant": "triton_row"}
    found = verdict(rows, growth, {"below": 8}, (Point("float32", 4, cols),))
    assert found.verdict == verdict_
    if cols == 512:
        assert found.reason.startswith("the region's first or last point was not timed; 4 points")


def test_without_a_whole_block_there_is_no_number():
    rows = [row("triton_row", 50, block=b, cols=c) for b, c in enumerate(COLS)]
    found = verdict([*rows, *even("triton_online", *[100] * 4), *twice()], RATIO, FASTER)
    assert (found.verdict, found.reason) == ("not applicable", "no block timed every point")


@pytest.mark.parametrize(
    ("bound", "expected"),
    [({"above": 0.4}, "supported"), ({"above": 0.6}, "refuted"), ({"above": 0.5}, "refuted")],
)
def test_a_fraction_is_of_the_faster_ceiling_of_each_block(bound: dict[str, float], expected: str):
    rows = [
        *blocks("copy_torch", 50, 90, cols=1024),
        *blocks("copy_memcpy", 90, 50, cols=1024),
        *blocks("triton_row", 100, 100, cols=1024),
    ]
    keys = {"kind": "fraction", "variant": "triton_row", "over": "mean"}
    assert told(verdict([*rows, *twice()], keys, bound)) == (expected, 0.5, 0.5, 0.5)
    assert verdict([*rows, *twice(1.5)], keys, bound).verdict == "inconclusive"
    stale = [{**r, "kernel_sha256": "c" * 64} if r["variant"] == "copy_torch" else r for r in rows]
    assert verdict([*stale, *twice()], keys, bound).verdict == "stale"


@pytest.mark.parametrize(
    ("kind", "over", "value"),
    # 4 x 1024 x 4 bytes twice in 2048 ns are 16 GB/s; four times the bytes in 4096 ns are 32.
    [
        ("bandwidth", "max", 32),
        ("bandwidth", "mean", 512**0.5),
        ("flatness", "", 2),
        ("growth", "", 2),
    ],
)
def test_useful_bandwidth(kind: str, over: str, value: float):
    rows = [*even("triton_row", 2048), *blocks("triton_row", *[4096] * 5, cols=4096), *twice()]
    keys = {"kind": kind, "variant": "triton_row", "over": over, "cols": (1024, 4096)}
    for bound, expected in ((value / 1.1, "supported"), (value * 1.1, "refuted")):
        assert told(verdict(rows, keys, {"above": bound})) == (expected, value, value, value)
    noisy = [r for r in rows if "torch" not in r["variant"]]
    pair = [*twice(cols=COLS[:1]), *twice(1.3, cols=COLS[2:3])]
    assert verdict([*noisy, *pair], keys, {"above": value / 1.1}).verdict == "inconclusive"


def test_growth_goes_by_columns_where_rows_fall():
    falling = [
        row
        for c, ns in ((8192, 100), (1024, 200), (2048, 100))
        for row in blocks("triton_row", *[ns] * 3, cols=c, rows=8192 // c)
    ]
    pair = [r for c in (8192, 1024, 2048) for r in twice(cols=(c,), rows=8192 // c)]
    found = verdict([*falling, *pair], {"kind": "growth", "variant": "triton_row"}, {"above": 1})
    assert told(found) == ("supported", 2, 2, 2)


def crossing(*times_ns: float, noise: float = 1.0) -> list[Row]:
    return [*even("triton_row", *times_ns), *even("triton_online", *[100] * 4), *twice(noise)]


@pytest.mark.parametrize(
    ("times_ns", "value"),
    [
        ((50, 50, 50, 50), 0),
        ((200, 50, 50, 50), 2048),
        ((200, 200, 200, 50), 8192),
        ((50, 50, 50, 200), math.inf),
        ((50, 200, 50, 50), 4096),  # faster, slower, faster again: from where on for good
        ((100, 100, 100, 100), math.inf),  # as fast is not faster
    ],
    ids=["always", "second", "last", "never", "for good", "equal"],
)
def test_where_a_variant_is_ahead_for_good(times_ns: tuple[float, ...], value: float):
    found = verdict(crossing(*times_ns), CROSSOVER, {"is": "always"})
    assert told(found) == ("supported" if value == 0 else "refuted", value, value, value)
    never = verdict(crossing(*times_ns), CROSSOVER, {"is": "never"})
    assert never.verdict == ("supported" if value == math.inf else "refuted")
    between = verdict(crossing(*times_ns), CROSSOVER, {"between": [2048, 4096]})
    assert between.verdict == ("supported" if value in (2048, 4096) else "refuted")


def test_blocks_that_cross_apart_are_inconclusive():
    apart = blocks("triton_row", 50, 50, 200, 200, 50, cols=2048)
    rows = [*apart, *(r for r in crossing(200, 0.5, 50, 50) if r["time_ns"] != 0.5)]
    found = verdict(rows, CROSSOVER, {"between": [1024, 2048]})
    assert told(found) == ("inconclusive", 2048, 2048, 4096)
    assert verdict(rows, CROSSOVER, {"between": [2048, 4096]}).verdict == "supported"


def test_a_crossover_inside_the_noise_is_inconclusive():
    rows = crossing(200, 99, 50, 50, noise=1.02)  # 2048 columns: faster by less than the noise
    assert verdict(rows, CROSSOVER, {"between": [2048, 2048]}).verdict == "inconclusive"
    assert verdict(rows, CROSSOVER, {"between": [2048, 4096]}).verdict == "supported"
    assert verdict(rows, CROSSOVER, {"is": "never"}).verdict == "refuted"


def test_a_crossover_along_rows():
    rows = [
        row
        for r, ns in ((1, 200), (16, 50), (256, 50))
        for row in (
            *blocks("triton_row", ns, ns, cols=1024, rows=r),
            *blocks("triton_online", 100, 100, cols=1024, rows=r),
            *twice(cols=(1024,), rows=r),
        )
    ]
    found = verdict(rows, {**CROSSOVER, "along": "rows"}, {"between": [2, 16]})
    assert told(found) == ("supported", 16, 16, 16)
