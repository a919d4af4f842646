"""The sweeps: one file a question, one line here."""

from collections.abc import Mapping

from experiments.sweeps import batch_scaling, small_batch, smoke, vocab_scaling
from experiments.sweeps.sweep import MODES, Point, Sweep

SWEEPS: Mapping[str, Sweep] = {
    "vocab_scaling": vocab_scaling.SWEEP,
    "batch_scaling": batch_scaling.SWEEP,
    "small_batch": small_batch.SWEEP,
    "smoke": smoke.SWEEP,
}

__all__ = ["MODES", "SWEEPS", "Point", "Sweep", "sweep"]


def sweep(name: str) -> Sweep:
    """The sweep called ``name``; a KeyError that lists the known names otherwise."""
    if name not in SWEEPS:
        raise KeyError(f"unknown sweep '{name}'; known: {', '.join(SWEEPS)}")
    return SWEEPS[name]
