"""What the interactive parts say where no script runs: their first state, computed here."""

from collections.abc import Sequence

import numpy as np

from paper.blog import example

LOGITS = (1.0, 2.0, 3.0)
SHIFTS = {"float32": (0.0, 80.0, 88.0, 100.0), "float16": (0.0, 8.0, 10.0, 100.0)}


def overflow() -> list[tuple[str, str, str, str]]:
    """Dtype, inputs, softmax as defined and softmax with the maximum subtracted."""
    rows = []
    for dtype, shifts in SHIFTS.items():
        for shift in shifts:
            x = (np.array(LOGITS) + shift).astype(dtype)
            with np.errstate(over="ignore", invalid="ignore"):
                plain = np.exp(x) / np.exp(x).sum(dtype=dtype)
                safe = np.exp(x - x.max()) / np.exp(x - x.max()).sum(dtype=dtype)
            rows.append((dtype, _told(x, 0), _told(plain, 3), _told(safe, 3)))
    return rows


def trace() -> list[tuple[str, ...]]:
    """Row, block, maximum and sum of the online form over the worked example."""
    return [
        (str(row.number), f"{b.first} to {b.last}", b.running_maximum, b.factor, b.running_sum)
        for row in example.rows()
        for b in row.online
    ]


def _told(values: Sequence[float] | np.ndarray, digits: int) -> str:
    return ", ".join("NaN" if np.isnan(v) else f"{v:.{digits}f}" for v in values)
