"""Ratios are formed inside a block, of what each question moves; the rest is told, not dropped."""

from typing import Any

import pandas as pd
import pytest

from experiments.family import OPERATORS
from experiments.family.operator import Case
from experiments.family.tables import RAW
from experiments.family.tidy import tidy
from experiments.tables import validated
from tests.experiments.family.made import row, stopped

Rows = list[dict[str, Any]]


def rows(operator: str, case: Case, **times: list[float]) -> Rows:
    """One sample a block of each implementation at ``case``."""
    named = {each.name: each for each in OPERATORS[operator].implementations}
    return [
        row(operator, named[name], case, block, time_ns=ns)
        for name, of_blocks in times.items()
        for block, ns in enumerate(of_blocks)
    ]


def table(some: Rows) -> pd.DataFrame:
    return tidy(validated(RAW, pd.DataFrame(some)[list(RAW.columns)])).set_index("implementation")


MASKED = OPERATORS["masks"].smoke[0]  # boolean: 2 x 4 bytes of scores an element, 1 of the mask
GRADIENT = OPERATORS["backward"].smoke[0]


def test_ratios_are_those_of_one_block():
    # Blocks differ by ten; in each, the plain softmax takes 90% of the time with a mask.
    some = rows(
        "masks", MASKED, ours=[1000, 10_000, 100_000], plain=[900, 9000, 90_000],
        torch=[3000, 30_000, 300_000], copy_torch=[800, 8000, 80_000],
    )  # fmt: skip
    ours = table(some).loc["ours"]
    for end in ("", "_low", "_high"):
        # By bandwidth: 9 bytes an element in 1000 over 8 in 900, and 8 in 800.
        assert ours[f"fraction_of_plain{end}"] == pytest.approx(9 / 1000 / (8 / 900))
        assert ours[f"fraction_of_ceiling{end}"] == pytest.approx(9 / 1000 / (8 / 800))
        assert ours[f"speedup_vs_torch{end}"] == pytest.approx(3.0)
    assert ours["median_us"] == pytest.approx(10.0)
    assert (ours["ci_low_us"], ours["ci_high_us"]) == (1.0, 100.0)
    assert ours["gbps"] == pytest.approx(9 * MASKED.elements / 10_000)
    assert ours["ceiling"] == "copy"


def test_ours_is_compared_with_each_in_its_block():
    some = rows("masks", MASKED, ours=[1000, 10_000, 100_000], torch=[3000, 30_000, 300_000],
                torch_compile=[900, 9000, 90_000])  # fmt: skip
    made = table(some)
    for end in ("", "_low", "_high"):
        assert made.loc["torch", f"speedup_of_ours{end}"] == pytest.approx(3.0)
        assert made.loc["torch_compile", f"speedup_of_ours{end}"] == pytest.approx(0.9)
    assert made.loc["ours", "speedup_of_ours"] == 1.0
    without = table(rows("masks", MASKED, torch=[1, 1, 1]))
    assert without.loc["torch", "speedup_of_ours"] != without.loc["torch", "speedup_of_ours"]


def test_the_copy_is_each_blocks_faster_one():
    some = rows("masks", MASKED, ours=[900, 900, 900], torch=[1, 1, 1],
                copy_torch=[800, 400, 800], copy_memcpy=[400, 800, 400])  # fmt: skip
    made = table(some)
    assert made.loc["copy", "median_us"] == pytest.approx(0.4)
    assert made.loc["ours", "fraction_of_ceiling"] == pytest.approx(9 / 900 / (8 / 400))


def test_the_ceiling_of_a_gradient_is_the_sum():
    made = table(rows("backward", GRADIENT, ours=[100.0], torch=[150.0], add=[95.0]))
    assert made.loc["ours", "fraction_of_ceiling"] == pytest.approx(0.95)
    assert set(made["ceiling"]) == {"add"}


def test_operations_are_counted_where_they_are_what_counts():
    case = OPERATORS["attention"].smoke[0]
    made = table(rows("attention", case, ours=[1000.0], torch=[500.0]))
    rate = OPERATORS["attention"].flops(case) / 1000 / 1e3
    assert made.loc["ours", "tflops"] == pytest.approx(rate)
    assert pd.isna(made.loc["ours", "fraction_of_ceiling"])
    assert set(made["ceiling"]) == {""}


def test_wrong_in_one_block_is_wrong():
    some = rows("masks", MASKED, ours=[1000, 1000], torch=[1000, 1000])
    some[1] |= {**stopped("wrong", "relative error 1"), "error": 1.0}
    ours = table(some).loc["ours"]
    assert (ours["status"], ours["reason"], ours["error"]) == ("wrong", "relative error 1", 1.0)
    assert pd.isna(ours["median_us"])


def test_skipped_in_one_block_is_timed_in_the_others():
    some = rows("masks", MASKED, ours=[1000, 1000], torch=[1000, 1000])
    some[0] |= stopped("skipped", "no room")
    ours = table(some).loc["ours"]
    assert (ours["status"], ours["n_blocks"]) == ("ok", 1)


def test_memory_is_that_of_the_worst_block_and_of_the_input():
    some = rows("masks", MASKED, ours=[1000, 1000], torch=[1000, 1000])
    some[1]["extra_bytes"] = 2.0 * MASKED.tensor_bytes
    assert table(some).loc["ours", "extra_share"] == pytest.approx(2.0)


def test_earlier_code_makes_this_projects_rows_stale():
    some = rows("masks", MASKED, ours=[1000], plain=[900], torch=[1000], copy_torch=[800])
    assert not table(some)["stale"].any()
    made = table([{**each, "kernel_sha256": "d" * 64} for each in some])
    assert set(made.index[made["stale"]]) == {"ours", "plain"}


def test_throttled_samples_are_flagged():
    some = rows("masks", MASKED, ours=[1000, 1000], torch=[1000, 1000])
    some[0]["throttle_mask"], some[1]["other_processes"] = 8.0, 1.0
    ours = table(some).loc["ours"]
    assert (ours["throttled_share"], ours["contended_share"]) == (0.5, 0.5)
