"""Goals of the operators and of the transformer, on hand-made measurements."""

from typing import Any

import pytest

from experiments.estimate import NotApplicable
from experiments.family import OPERATORS
from experiments.goal import DECODING, FAMILY, TRAINING, Goal, goals
from experiments.goals import Evidence, evaluate, find, outcome
from experiments.transformer.summary import summary
from tests.experiments.family.made import tidy_of
from tests.experiments.trained import decoded, trained


def judged(goal: Goal, some: Evidence) -> str:
    return outcome(goal, find(goal, some))


def aimed(operator: str, column: str, value: float, **torch: float | str) -> dict[str, int]:
    """Outcomes of the goals of ``operator`` in ``column``, where that is ``value`` throughout."""
    table = tidy_of(operator)
    ours, peer = (table["implementation"] == name for name in ("ours", "torch"))
    for end in ("", "_low", "_high"):
        if f"{column}{end}" in table:
            table.loc[ours, f"{column}{end}"] = value
    for name, told in torch.items():
        table.loc[peer, name] = told
    some = [g for g in goals() if g.source == f"{FAMILY}{operator}" and g.against == column]
    kept = Evidence({}, {f"{FAMILY}{operator}": table})
    made = evaluate(kept, "archive-test-gpu")
    named = made["statement"].isin({g.statement for g in some})
    mine = made[(made["measured"] == f"{FAMILY}{operator}") & named]
    assert len(mine) == len(some)
    return mine["outcome"].value_counts().to_dict()


@pytest.mark.parametrize(
    ("operator", "column", "met", "missed"),
    [
        ("factors", "fraction_of_plain", 0.951, 0.949),
        ("masks", "fraction_of_plain", 0.951, 0.949),
        ("columns", "fraction_of_ceiling", 0.901, 0.899),
        ("backward", "fraction_of_ceiling", 0.951, 0.949),
        ("cross_entropy", "extra_share", 0.009, 0.011),
        ("calls", "speedup_vs_torch", 0.67, 0.66),
    ],
)
def test_operators_are_judged_by_what_they_aim_at(
    operator: str, column: str, met: float, missed: float
):
    count = len(OPERATORS[operator].cases)
    assert aimed(operator, column, met) == {"met": count}
    assert aimed(operator, column, missed) == {"missed": count}


def test_twice_torchs_speed_is_a_goal_where_torch_is_slow():
    count = len(OPERATORS["columns"].cases)
    slow, fast = ({"fraction_of_ceiling": share} for share in (0.44, 0.46))
    assert aimed("columns", "speedup_vs_torch", 2.01, **slow) == {"met": count}
    assert aimed("columns", "speedup_vs_torch", 1.99, **slow) == {"missed": count}
    assert aimed("columns", "speedup_vs_torch", 1.99, **fast) == {"no goal": count}
    assert aimed("columns", "speedup_vs_torch", 2.01, status="wrong", **slow) == {"no goal": count}


def test_an_operator_that_was_not_timed_is_unknown_and_earlier_code_stale():
    wanted = next(g for g in goals() if g.source == f"{FAMILY}backward")
    for table, why in (
        (None, "family/backward was not measured"),
        (tidy_of("backward", "smoke"), "has no such row"),
        (tidy_of("backward").assign(status="wrong", reason="off by 1"), "wrong: off by 1"),
        (tidy_of("backward").assign(fraction_of_ceiling=float("nan")), "nothing that it is"),
    ):
        with pytest.raises(NotApplicable, match=why):
            find(wanted, Evidence({}, {wanted.source: table}))
    old = Evidence({}, {wanted.source: tidy_of("backward", kernel_sha256="c" * 64)})
    assert judged(wanted, old) == "stale"
    single = tidy_of("backward").assign(n_blocks=1)
    assert judged(wanted, Evidence({}, {wanted.source: single})) == "open"


def beside(row: str, value: float, **changes: Any) -> dict[str, str]:
    """Outcomes, by claim, of speeds over ``row``, whose times are ``value`` of ours throughout."""
    table = tidy_of("cross_entropy")
    mine = table["implementation"] == row
    for end in ("", "_low", "_high"):
        table.loc[mine, f"speedup_of_ours{end}"] = value
    for name, told in changes.items():
        table.loc[mine, name] = told
    made = evaluate(Evidence({}, {f"{FAMILY}cross_entropy": table}), "archive-test-gpu")
    made = made[made["measured"] == f"{FAMILY}cross_entropy"]
    return {claim: "; ".join(some.unique()) for claim, some in made.groupby("claim")["outcome"]}


def test_speeds_over_others_are_judged_where_these_have_a_time():
    assert beside("liger", 1.01)["G11.4"] == "met"
    slower = beside("liger", 0.99)
    assert slower["G11.4"] == "missed"
    assert slower["G11.2"] != "missed"
    assert beside("liger", 0.99, status="wrong", reason="NaN")["G11.4"] == "no goal"
    assert beside("ours", 1.0, status="wrong", reason="NaN")["G11.4"] == "unknown"
    assert beside("ours", 1.0, stale=True)["G11.4"] == "stale"


def learned(**changes: Any) -> dict[str, list[str]]:
    """Outcomes, by claim, of a transformer that was trained so."""
    table = summary(trained(**changes)).assign(code_commit="a" * 40)
    made = evaluate(Evidence({}, {TRAINING: table}), "archive-test-gpu")
    return made[made["measured"] == TRAINING].groupby("claim")["outcome"].agg(list).to_dict()


def told(**changes: Any) -> dict[str, str]:
    """Outcomes, by claim, of tokens that were told so."""
    table = decoded().assign(stale=False)
    ours = table["operators"] == "ours"
    for name, value in changes.items():
        table.loc[ours, name] = value
    made = evaluate(Evidence({}, {DECODING: table}), "archive-test-gpu")
    mine = made[made["measured"] == DECODING].groupby("claim")["outcome"]
    return {claim: "; ".join(some.unique()) for claim, some in mine}


def test_tokens_are_told_sooner_than_with_torchs_operators():
    claims = "G16.4", "G16.5", "G16.6"
    assert told() == dict.fromkeys(claims, "met")
    assert told(median_us=99.0, low_us=20.0, high_us=1e6)["G16.4"] == "open"
    slower = told(median_us=1e6, low_us=1e6, high_us=1e6)
    assert slower == dict.fromkeys(claims, "missed")
    assert told(stale=True) == dict.fromkeys(claims, "stale")
    assert told(timer="host") == dict.fromkeys(claims, "unknown")
    made = evaluate(Evidence({}, {DECODING: decoded().assign(stale=False)}), "archive-test-gpu")
    (found,) = made.query("claim == 'G16.4' and place == '16 sequences'").to_dict("records")
    assert found["value"] == pytest.approx(46 / 28)
    assert found["low"] == pytest.approx(46 * 0.98 / (28 * 1.03))
    assert found["note"] == "28 µs; torch: 46 µs"


def test_a_transformer_is_judged_by_its_curve_its_memory_and_its_time():
    every = {"G16.1": ["met"], "G16.2": ["met", "met"], "G16.3": ["met", "met"]}
    assert learned() == every
    far = {("torch", True): 2e-4, ("compiled", False): 3e-4, ("ours", False): 7e-4}
    assert learned(off=far)["G16.1"] == ["missed"]
    # Where another seed makes less, the curve tells nothing.
    assert learned(seeds=1e-5)["G16.1"] == ["open"]
    table = summary(trained()).assign(code_commit="a" * 40)
    table.loc[table["operators"] == "compiled", ["peak_bytes", "step_low_ms"]] = [2.9e9, 10.0]
    made = evaluate(Evidence({}, {TRAINING: table}), "archive-test-gpu")
    made = made[made["goal"] == 16].set_index(["claim", "place"])["outcome"]
    assert made["G16.2", "compiled"] == "missed"
    assert made["G16.3", "compiled"] == "open"
    assert made["G16.2", "torch"] == made["G16.3", "torch"] == "met"
    without = evaluate(Evidence({}, {}), "archive-test-gpu")
    assert set(without["outcome"]) == {"unknown"}
