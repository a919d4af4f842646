"""TRAINING and DECODING tables as a GPU would give them, from formulas."""

import math
from collections.abc import Mapping
from itertools import product

import pandas as pd

from experiments.tables import validated
from experiments.transformer.fingerprint import DECODED, TRAINED, sha256_now
from experiments.transformer.tables import DECODING, TRAINING
from tests.experiments.counted import COMMIT

STEPS, SEEDS = 60, (1, 2, 3)
KINDS = (("torch", False), ("torch", True), ("compiled", False), ("ours", False))
MS = {"torch": 20.0, "compiled": 14.0, "ours": 11.0}
GB = {"torch": 6.0, "compiled": 4.0, "ours": 3.0}
# How far a curve is from torch's at its end, relatively.
ROUNDING = {("torch", True): 2e-4, ("compiled", False): 3e-4, ("ours", False): 4e-4}


def trained(off: Mapping[tuple[str, bool], float] = ROUNDING, seeds: float = 0.05) -> pd.DataFrame:
    """Every kind of run, ``off`` from torch's; the curves of two seeds are ``seeds`` apart."""
    rows = [
        {
            "operators": operators, "seed": seed, "turned": turned, "step": step,
            "warm_up": step <= 5,
            "loss": (2 + 8 * math.exp(-step / 20)) * (1 + seeds * seed)
            * (1 + off.get((operators, turned), 0.0) * step / STEPS),
            "step_ms": MS[operators] * (40 if step == 1 else 1) + 0.1 * seed,
            "peak_bytes": GB[operators] * 1e9, "logits_bytes": 824_180_736, "tokens": 8192,
            "parameters": 17_861_888, "kernel_sha256": sha256_now(TRAINED),
            "code_commit": COMMIT,
        }
        for (operators, turned), seed, step in product(KINDS, SEEDS, range(1, STEPS + 1))
        if (operators, turned) == ("torch", False) or (operators, turned) in off
    ]  # fmt: skip
    return validated(TRAINING, pd.DataFrame(rows))


def decoded() -> pd.DataFrame:
    """Every batch, with torch's operators and with ours."""
    rows = [
        {
            "operators": operators, "what": what, "timer": timer, "batch": batch, "cols": 50_304,
            "tokens": batch * each, "median_us": us, "low_us": us * 0.98, "high_us": us * 1.03,
            "tokens_per_s": batch * each / us * 1e6, "n_samples": 15,
            "kernel_sha256": sha256_now(DECODED), "code_commit": COMMIT,
        }
        for batch, operators, (what, timer, each, floor) in product(
            (1, 4, 16, 64), ("torch", "ours"),
            (("sample", "graph", 1, 30.0), ("sample", "call", 1, 60.0),
             ("generate", "call", 64, 1e5)),
        )
        for us in (floor * (1.0 if operators == "torch" else 0.4) + batch,)
    ]  # fmt: skip
    return validated(DECODING, pd.DataFrame(rows))
