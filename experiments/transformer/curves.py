"""Is a loss curve that of torch's operators?  By what torch's own roundings make of it.

Two runs that differ in rounding alone part, slowly: one step's rounding is in the next one's
weights.  How far is seen where torch computes the same otherwise, of the same seed: with the
sequences of every batch in another order, and compiled.  A curve is the same where it is at most
TIMES as far from torch's as these are, since the farthest of a few runs is itself by chance; and
where that is less than another seed makes, or else the test could not tell anything.
"""

from itertools import combinations

import pandas as pd

TIMES = 2.0
SMOOTHED = 20  # steps: a single batch's loss says more about the batch
VERDICTS = ("reference", "same", "different", "open")
RUN = ["operators", "turned", "seed"]
TORCH = ("torch", False)
OTHERWISE = (("torch", True), ("compiled", False))  # torch's, rounded otherwise

Kind = tuple[str, bool]  # operators, and whether batches are turned


def smoothed(training: pd.DataFrame) -> pd.DataFrame:
    """Losses of a TRAINING table, each the mean of SMOOTHED steps up to it: a column a run."""
    runs = {run: mine.set_index("step")["loss"] for run, mine in training.groupby(RUN)}
    losses = pd.DataFrame(runs).rename_axis(columns=RUN)
    window = min(SMOOTHED, len(losses))
    return losses.rolling(window).mean().iloc[window - 1 :]


def apart(losses: pd.DataFrame) -> dict[Kind, pd.Series]:
    """By kind of run, at every step: how far the farthest seed is from torch's of the same seed.

    Relative to torch's; NaN where a loss is none.
    """
    found: dict[Kind, list[pd.Series]] = {}
    for operators, turned, seed in losses.columns:
        if (operators, turned) != TORCH and (*TORCH, seed) in losses.columns:
            far = _off(losses[operators, turned, seed], losses[*TORCH, seed])
            found.setdefault((operators, bool(turned)), []).append(far)
    return {kind: pd.concat(far, axis=1).max(axis=1, skipna=False) for kind, far in found.items()}


def distances(losses: pd.DataFrame) -> dict[Kind, float]:
    """By kind of run: how far it is from torch's, at the step and in the seed where it is most."""
    return {kind: float(far.max(skipna=False)) for kind, far in apart(losses).items()}


def _off(mine: pd.Series, other: pd.Series) -> pd.Series:
    return (mine - other).abs() / other


def allowed(found: dict[Kind, float]) -> float:
    """How far a curve may be from torch's; NaN where torch was not run otherwise."""
    return TIMES * float(pd.Series([found[k] for k in OTHERWISE if k in found], dtype=float).max())


def between_seeds(losses: pd.DataFrame) -> float:
    """How far the nearest two seeds of torch's are from each other; NaN of a single one."""
    mine = losses[TORCH]
    far = [float(_off(mine[a], mine[b]).max()) for a, b in combinations(mine.columns, 2)]
    return min(far, default=float("nan"))


def verdict(kind: Kind, found: dict[Kind, float], most: float, seeds: float) -> str:
    """One of VERDICTS for the runs of ``kind``."""
    if kind == TORCH or kind in OTHERWISE:
        return "reference"
    if pd.isna(most) or most >= seeds:
        return "open"
    return "same" if found.get(kind, float("nan")) <= most else "different"
