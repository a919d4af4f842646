"""Is it the same curve?  By what torch's own roundings make: told for curves that are known."""

import math
from pathlib import Path

import pandas as pd
import pytest

from experiments.tables import BadTable
from experiments.transformer.curves import SMOOTHED, TIMES, distances, smoothed
from experiments.transformer.summary import main, markdown, summary
from experiments.transformer.tables import SUMMARY
from tests.commands import module
from tests.experiments.trained import ROUNDING, STEPS, decoded, trained

OURS = ("ours", False)


def told(training: pd.DataFrame) -> pd.Series:
    """The row of ours."""
    found = summary(training).set_index("operators")
    return found.loc["ours"]


def test_a_curve_is_smoothed_over_whole_windows_and_compared_within_a_seed():
    losses = smoothed(trained())
    assert losses.index.tolist() == list(range(SMOOTHED, STEPS + 1))
    first = trained().query("operators == 'ours' and seed == 2 and step <= @SMOOTHED")["loss"]
    assert losses["ours", False, 2].iloc[0] == pytest.approx(first.mean())
    found = distances(losses)
    assert found.keys() == ROUNDING.keys()
    for kind, far in ROUNDING.items():
        # The last window's mean is that far off, less what its middle lags behind its end.
        assert 0.8 * far < found[kind] < far


def test_as_far_as_torch_computed_otherwise_is_the_same():
    ours = told(trained())
    assert ours["verdict"] == "same"
    assert ours["allowed"] == pytest.approx(
        TIMES * distances(smoothed(trained()))["compiled", False]
    )
    assert ours["distance"] < ours["allowed"] < ours["between_seeds"]


# Torch's own is off by 3e-4 at most, and twice that is allowed.
@pytest.mark.parametrize("far", [1e-6, 5.8e-4, -5.8e-4])
def test_up_to_that_it_is_the_same(far: float):
    assert told(trained({**ROUNDING, OURS: far}))["verdict"] == "same"


@pytest.mark.parametrize("far", [6.2e-4, -6.2e-4, 0.02, math.nan])
def test_farther_is_another_curve(far: float):
    assert told(trained({**ROUNDING, OURS: far}))["verdict"] == "different"


def test_one_seed_that_is_off_decides():
    table = trained()
    off = (table["operators"] == "ours") & (table["seed"] == 3) & (table["step"] > 40)
    table.loc[off, "loss"] *= 1.0004  # on average it would be near enough
    assert told(table)["verdict"] == "different"


def test_what_cannot_tell_seeds_apart_or_has_no_rounding_is_open():
    assert told(trained({**ROUNDING, ("torch", True): 0.03}))["verdict"] == "open"
    assert told(trained({OURS: 1e-9}))["verdict"] == "open"


def test_a_single_seed_is_judged_by_its_rounding():
    one = trained().query("seed == 1")
    assert math.isnan(told(one)["between_seeds"])
    assert told(one)["verdict"] == "same"


def test_times_are_without_the_first_steps_and_memory_is_the_most():
    found = summary(trained()).set_index(["operators", "turned"])
    assert found.loc[("ours", False), "step_ms"] == pytest.approx(11.2)
    assert found.loc[("ours", False), "step_low_ms"] == pytest.approx(11.1)
    slow = trained()
    slow["warm_up"] = slow["step"] <= STEPS - 2
    slow.loc[slow["warm_up"], "step_ms"] *= 3
    assert summary(slow)["step_ms"].iloc[-1] == pytest.approx(11.2)
    assert found.loc[("torch", False), "peak_bytes"] == 6e9
    assert found["runs"].tolist() == [3] * 4
    assert found["verdict"].tolist() == ["reference"] * 3 + ["same"]


def test_without_torch_there_is_nothing_to_compare_with():
    with pytest.raises(BadTable, match="no run with torch's operators"):
        summary(trained().query("operators == 'ours'"))


def test_the_page_has_every_number(tmp_path: Path):
    trained().to_csv(tmp_path / "training.csv", index=False)
    decoded().to_csv(tmp_path / "decoding.csv", index=False)
    out, page = tmp_path / "transformer.csv", tmp_path / "transformer.md"
    main(tmp_path / "training.csv", tmp_path / "decoding.csv", out, page)
    assert SUMMARY.validate(pd.read_csv(out)).equals(summary(trained()))
    text = page.read_text()
    assert text == markdown(trained(), decoded())
    assert "17.9 million parameters, 60 steps of 8,192 tokens" in text
    assert "takes 0.82 GB" in text
    far = f"{distances(smoothed(trained()))[OURS]:.3%}"
    loss = f"{told(trained())['loss']:.4f}"
    assert f"| ours | 3 | {loss} | 11.20 | 11.10 to 11.30 | 3.00 | {far} | same |" in text
    assert "| torch | sample 1 | graph | 64 | 94.0 | 92.1 to 96.8 | 680,851 |" in text


def test_another_table_is_one_sentence(tmp_path: Path):
    (tmp_path / "training.csv").write_text("a,b\n1,2\n")
    decoded().to_csv(tmp_path / "decoding.csv", index=False)
    done = module(
        "experiments.transformer.summary", tmp_path / "training.csv", tmp_path / "decoding.csv",
        "--out", tmp_path / "out.csv", "--table", tmp_path / "out.md",
    )  # fmt: skip
    assert done.returncode == 2
    assert "are not what the transformer gives: missing or unknown columns" in done.stdout
    assert "Traceback" not in done.stdout
