"""Our own claims: one place that misses refutes, and what is not known supports nothing."""

import math
from itertools import permutations

import pandas as pd
import pytest

from experiments.claims import CLAIMS, value_text, verdict_text
from experiments.outcomes import GOALS, OUTCOMES
from experiments.own import own, verdict
from experiments.tables import validated
from experiments.verdict import VERDICTS
from tests.experiments.places import place


def claim(*places: dict) -> dict:
    """The only claim of ``places``, as a row of a CLAIMS table."""
    goals = validated(GOALS, pd.DataFrame(places)[list(GOALS.columns)])
    (row,) = validated(CLAIMS, pd.DataFrame(own(goals))).to_dict("records")
    return row


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (("met", "met"), "supported"),
        (("met", "no goal"), "supported"),
        (("met", "missed", "open", "stale", "unknown", "no goal"), "refuted"),
        (("missed",), "refuted"),
        (("met", "stale", "open", "unknown"), "stale"),
        (("stale", "unknown"), "stale"),
        (("met", "open"), "inconclusive"),
        (("met", "unknown"), "inconclusive"),
        (("unknown", "unknown"), "not applicable"),
        (("no goal", "no goal"), "not applicable"),
        (("no goal", "unknown"), "not applicable"),
    ],
)
def test_the_verdict_over_all_places(outcomes: tuple[str, ...], expected: str):
    for order in permutations(outcomes[:4]):
        row = claim(*(place(outcome) for outcome in (*order, *outcomes[4:])))
        assert row["verdict"] == expected


def test_every_outcome_leads_to_a_verdict():
    assert {verdict([outcome]) for outcome in OUTCOMES} == set(VERDICTS)


def test_the_value_is_that_of_the_place_nearest_to_a_miss():
    values = (0.95, 1.4, 1.2)
    row = claim(*(place("met", value, cols=2**n) for n, value in enumerate(values)))
    assert (row["value"], row["low"], row["high"]) == (0.95, 0.95, 1.4)
    assert value_text(row) == "0.950 to 1.400"
    bounds = {"least": -math.inf, "most": 2.0}
    row = claim(*(place("met", value, **bounds) for value in values))
    assert (row["value"], row["condition"]) == (1.4, "at most 2")
    row = claim(*(place("met", value, least=0.5, most=1.5) for value in values))
    assert (row["value"], row["condition"]) == (1.4, "0.5 to 1.5")
    nothing = claim(place("unknown"))
    assert math.isnan(nothing["value"])
    assert value_text(nothing) == "–"


def test_places_without_a_goal_count_for_nothing():
    row = claim(place("met"), place("no goal"), place("unknown"))
    assert (row["n_points"], row["n_asked"]) == (1, 2)
    assert verdict_text(row) == "**inconclusive**: 1 met, 1 unknown, 1 no goal"
    assert verdict_text(claim(place("met"), place("no goal"))) == "**supported**: 1 met, 1 no goal"
    assert claim(place("no goal"))["reason"] == "it is no goal"


def test_what_was_measured_is_told_with_its_range():
    row = claim(place("met"), place("met", rows=9, dtype="bfloat16", measured="few_rows"))
    assert row["measured"] == "frontier; few_rows, 8 to 9 rows, 1,024 columns, float32, bfloat16"
    bare = claim(place("met", dtype="", rows=0, cols=0, measured="sanitizer"))
    assert bare["measured"] == "sanitizer"


def test_claims_are_kept_apart_by_their_ids():
    goals = pd.DataFrame([place("met"), place("missed", claim="G2.1", goal=2)])
    rows = own(goals)
    assert [(row["id"], row["place"], row["verdict"]) for row in rows] == [
        ("G1.1", "goal 1", "supported"), ("G2.1", "goal 2", "refuted"),
    ]  # fmt: skip
