"""Rows of a GOALS table, one a place."""

import math
from typing import Any


def place(outcome: str, value: float = 1.0, **changes: Any) -> dict[str, Any]:
    """One place of claim G1.1, that shall be at least 0.9, with ``changes``."""
    value = math.nan if outcome in ("unknown", "no goal") else value
    return {
        "source": "local-test-gpu", "claim": "G1.1", "goal": 1, "statement": "fraction of copy",
        "measured": "frontier", "place": "", "dtype": "float32", "rows": 8, "cols": 1024,
        "value": value, "low": value, "high": value, "noise": 0.01, "least": 0.9,
        "most": math.inf, "outcome": outcome, "note": f"it is {outcome}", **changes,
    }  # fmt: skip
