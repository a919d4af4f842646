"""What the transformer gave, for people: is the loss curve the same, what do steps and tokens take?

python -m experiments.transformer.summary training.csv decoding.csv --out transformer.csv \
    --table transformer.md
"""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from experiments.markdown import head, line
from experiments.tables import BadTable, read_csv, validated
from experiments.tidy import interval
from experiments.transformer.curves import (
    SMOOTHED,
    TIMES,
    TORCH,
    allowed,
    between_seeds,
    distances,
    smoothed,
    verdict,
)
from experiments.transformer.fingerprint import DECODED, TRAINED
from experiments.transformer.stale import complete, other_code
from experiments.transformer.tables import DECODING, OPERATORS, SUMMARY, TRAINING

NONE, OURS = "–", "ours"
RULE = (
    f"A curve is the same as torch's where smoothed losses (of {SMOOTHED} steps) are at most "
    f"{TIMES:g} times as far from those of the same seed as torch's own are, computed otherwise: "
    "its batches turned around, or compiled."
)


def summary(training: pd.DataFrame) -> pd.DataFrame:
    """The SUMMARY of a TRAINING table; torch's own row is the first.  Raises BadTable without."""
    kinds = [(o, t) for o in OPERATORS for t in (False, True)]
    groups = dict(list(training.groupby(["operators", "turned"])))
    if TORCH not in groups:
        raise BadTable("it has no run with torch's operators to compare with")
    losses = smoothed(training)
    found, seeds = distances(losses), between_seeds(losses)
    most, old = allowed(found), bool(other_code(training, TRAINED))
    rows = []
    for kind in (k for k in kinds if k in groups):
        mine = groups[kind]
        timed = mine[~mine["warm_up"]].groupby("seed")["step_ms"].median()
        value, low, high = interval(timed.to_numpy())
        # Of the first run of all, libraries' own memory would be the most.
        peak = mine.groupby("seed")["peak_bytes"].max().median()
        rows.append(
            {
                "operators": kind[0], "turned": kind[1], "runs": mine["seed"].nunique(),
                "loss": losses[kind].iloc[-1].mean(skipna=False), "step_ms": value,
                "step_low_ms": low, "step_high_ms": high, "peak_bytes": peak,
                "distance": found.get(kind, np.nan), "allowed": most, "between_seeds": seeds,
                "verdict": verdict(kind, found, most, seeds), "stale": old and kind[0] == OURS,
            }
        )  # fmt: skip
    return validated(SUMMARY, pd.DataFrame(rows))


def markdown(training: pd.DataFrame, decoding: pd.DataFrame) -> str:
    """Both tables for people, after what was run."""
    found, one = summary(training), training.iloc[0]
    parameters, tokens = one["parameters"] / 1e6, one["tokens"]
    lines = [
        f"A transformer of {parameters:.1f} million parameters, {training['step'].max()} steps of "
        f"{tokens:,} tokens; one copy of the logits in 16 bits takes "
        f"{one['logits_bytes'] / 1e9:.2f} GB. {RULE} Here that is {_share(found['allowed'][0])}; "
        f"another seed makes {_share(found['between_seeds'][0])}.",
        *_outdated(training, decoding),
        "",
        *head(["operators", "runs", "last loss", "ms a step", "", "peak GB", "off by", "curve"]),
    ]
    lines += [line(_cells(row)) for row in found.to_dict("records")]
    lines += ["", *head(["operators", "", "timer", "sequences", "µs", "", "tokens a second"])]
    lines += [line(_times(row)) for row in decoding.to_dict("records")]
    return "\n".join([*lines, ""])


def _outdated(training: pd.DataFrame, decoding: pd.DataFrame) -> list[str]:
    """A line of each table that is stale."""
    of = {"trained": other_code(training, TRAINED), "timed": other_code(decoding, DECODED)}
    return [f"\nStale: {OURS} was {done} with {code}." for done, code in of.items() if code]


def _cells(row: dict[str, Any]) -> list[str]:
    name = f"{row['operators']}, turned" if row["turned"] else row["operators"]
    peak = NONE if pd.isna(row["peak_bytes"]) else f"{row['peak_bytes'] / 1e9:.2f}"
    between = f"{row['step_low_ms']:.2f} to {row['step_high_ms']:.2f}"
    return [
        name, str(row["runs"]), f"{row['loss']:.4f}", f"{row['step_ms']:.2f}", between, peak,
        _share(row["distance"]), row["verdict"],
    ]  # fmt: skip


def _times(row: dict[str, Any]) -> list[str]:
    what = f"{row['what']} {row['tokens'] // row['batch']}"
    between = f"{row['low_us']:,.1f} to {row['high_us']:,.1f}"
    return [
        row["operators"], what, row["timer"], str(row["batch"]), f"{row['median_us']:,.1f}",
        between, f"{row['tokens_per_s']:,.0f}",
    ]  # fmt: skip


def _share(value: float) -> str:
    return NONE if pd.isna(value) else f"{value:.3%}" if value >= 1e-5 else f"{value * 100:.1g}%"


def main(
    training: Annotated[Path, typer.Argument(help="training.csv")],
    decoding: Annotated[Path, typer.Argument(help="decoding.csv")],
    out: Annotated[Path, typer.Option(help="a row a kind of run, a CSV")],
    table: Annotated[Path, typer.Option(help="both, as Markdown")],
) -> None:
    """Say whether the loss curve is the same, and what steps and tokens take."""
    try:
        steps = complete(TRAINING, read_csv(training))
        times = complete(DECODING, read_csv(decoding))
        summary(steps).to_csv(out, index=False)
    except (BadTable, OSError, ValueError) as error:
        print(f"{training} and {decoding} are not what the transformer gives: {error}")
        raise typer.Exit(2) from error
    table.write_text(markdown(steps, times))


if __name__ == "__main__":
    typer.run(main)
