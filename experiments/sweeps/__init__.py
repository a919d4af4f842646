"""The sweeps: one file a question, one line here."""

from collections.abc import Mapping

from experiments.sweeps import (
    batch_scaling,
    course_shapes,
    cuda_ladder,
    few_rows,
    frontier,
    launch,
    numerics,
    small_batch,
    smoke,
    topk,
    tutorial_cols,
    vocab_scaling,
    worklog,
)
from experiments.sweeps.sweep import MODES, Point, Sweep

SWEEPS: Mapping[str, Sweep] = {
    "vocab_scaling": vocab_scaling.SWEEP,
    "batch_scaling": batch_scaling.SWEEP,
    "small_batch": small_batch.SWEEP,
    "tutorial_cols": tutorial_cols.SWEEP,
    "course_shapes": course_shapes.SWEEP,
    "cuda_ladder": cuda_ladder.SWEEP,
    "worklog": worklog.SWEEP,
    "launch": launch.SWEEP,
    "numerics": numerics.SWEEP,
    "topk": topk.SWEEP,
    "frontier": frontier.SWEEP,
    "few_rows": few_rows.SWEEP,
    "smoke": smoke.SWEEP,
}

__all__ = ["MODES", "SWEEPS", "Point", "Sweep", "sweep"]


def sweep(name: str) -> Sweep:
    """The sweep called ``name``; a KeyError that lists the known names otherwise."""
    if name not in SWEEPS:
        raise KeyError(f"unknown sweep '{name}'; known: {', '.join(SWEEPS)}")
    return SWEEPS[name]
