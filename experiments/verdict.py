"""Is a claim borne out?

supported        the whole interval meets the condition
refuted          none of it does
inconclusive     the interval reaches across, the noise floor could carry the number across, or
                 one of the points that a quick run leaves out could
stale            measured with other code than today's
not applicable   not measured here, or a statement about another GPU
"""

import math
from dataclasses import dataclass

from experiments.claim import Claim, Condition
from experiments.estimate import Beside, Estimate, NotApplicable, Recorded, estimate

VERDICTS = ("supported", "refuted", "inconclusive", "not applicable", "stale")
TIMELESS = ("status", "error", "resource", "traffic")
LEAST_BLOCKS = 2


@dataclass(frozen=True)
class Verdict:
    """What a source says about a claim, and in one line why."""

    verdict: str
    reason: str
    estimate: Estimate | None = None


def assess(claim: Claim, recorded: Recorded | None, beside: Beside, gpu: str) -> Verdict:
    """The verdict on ``claim`` of a source measured on ``gpu`` (a slug).

    ``recorded`` is the claim's sweep, None where missing; ``beside`` is what is no sweep.
    """
    measure = claim.measure
    try:
        found = estimate(measure, claim.condition.word, recorded, beside)
    except NotApplicable as error:
        return Verdict("not applicable", str(error))
    table = beside.counts if measure.kind == "traffic" else recorded and recorded.table
    if table is not None:
        stale = table.groupby("variant")["stale"].any()
        if names := [name for name in measure.names(("copy",)) if stale.get(name, False)]:
            return Verdict("stale", f"measured with earlier code: {', '.join(names)}", found)
    if not claim.carries_over and not (claim.gpu and claim.gpu in gpu):
        return Verdict("not applicable", f"needs another GPU: {claim.because}", found)
    if measure.kind not in TIMELESS:
        if found.n_blocks < LEAST_BLOCKS:
            return Verdict("inconclusive", "a single block has no interval", found)
        if math.isnan(found.noise):
            return Verdict("inconclusive", "no noise floor: nothing was timed twice", found)
    verdict = judge(claim.condition, found)
    missing = recorded.unmeasured(measure) if recorded is not None else 0
    # What the points of a thinner grid refute stays refuted; only a crossover moves both ways.
    open_to = ("supported", "refuted") if measure.kind == "crossover" else ("supported",)
    if missing and measure.of_every_point and verdict.verdict in open_to:
        why = f"{found.note}; one that was not measured could say otherwise"
        return Verdict("inconclusive", why, found)
    return verdict


def judge(condition: Condition, found: Estimate) -> Verdict:
    """The verdict of a number that counts."""
    inside = condition.holds(found.low) and condition.holds(found.high)
    if not inside and condition.admits(found.low, found.high):
        why = f"{found.note}; the interval reaches across the condition"
        return Verdict("inconclusive", why, found)
    if any(condition.holds(value) != inside for value in found.near):
        why = f"{found.note}; the noise floor of {found.noise:.1%} reaches across the condition"
        return Verdict("inconclusive", why, found)
    return Verdict("supported" if inside else "refuted", found.note, found)
