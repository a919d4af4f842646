"""Our own claims: what each goal says of all its places, judged as the publications' claims are.

supported        every place is met
refuted          a place is missed, whatever the others are
stale            none is missed, and some were measured with earlier code
inconclusive     none is missed or stale, and some are open, or not measured
not applicable   no place was measured

Places at which there is no goal count for nothing.
"""

import math
from collections.abc import Iterable
from typing import Any

import pandas as pd

from experiments.outcomes import by_claim, told

PUBLICATION, KIND = "own", "goal"


def own(goals: pd.DataFrame) -> list[dict[str, Any]]:
    """The claims of a GOALS table as rows of a CLAIMS table, in order."""
    return [_row(*key, places) for key, places in by_claim(goals)]


def _row(claim: str, statement: str, shall: str, places: pd.DataFrame) -> dict[str, Any]:
    asked = places[places["outcome"] != "no goal"]
    values = asked["value"]
    room = pd.concat([values - asked["least"], asked["most"] - values], axis=1).min(axis=1)
    nearest = math.nan if values.isna().all() else values[room.idxmin()]
    found = verdict(asked["outcome"])
    why = places["note"].mode().iloc[0] if found == "not applicable" else told(places)
    return {
        "source": places["source"].iloc[0], "id": claim, "publication": PUBLICATION,
        "place": f"goal {places['goal'].iloc[0]}", "statement": statement, "kind": KIND,
        "measured": _measured(places), "condition": shall, "carries_over": True,
        "value": nearest, "low": values.min(), "high": values.max(),
        "noise": asked["noise"].max(), "n_points": int(values.notna().sum()),
        "n_asked": len(asked), "n_blocks": 0, "verdict": found, "reason": why, "archived": "",
    }  # fmt: skip


def verdict(outcomes: Iterable[str]) -> str:
    """One of VERDICTS, for what came of the places at which there is a goal."""
    found = set(outcomes)
    if not found - {"unknown"}:
        return "not applicable"
    for outcome, word in (("missed", "refuted"), ("stale", "stale")):
        if outcome in found:
            return word
    return "supported" if found == {"met"} else "inconclusive"


def _measured(places: pd.DataFrame) -> str:
    """Sources, and of points their range."""
    told = ["; ".join(places["measured"].unique())]
    points = places[places["dtype"] != ""]
    for axis, name in (("rows", "rows"), ("cols", "columns")):
        if len(points):
            low, high = points[axis].min(), points[axis].max()
            told.append(f"{low:,}" + ("" if low == high else f" to {high:,}") + f" {name}")
    return ", ".join([*told, *points["dtype"].unique()])
