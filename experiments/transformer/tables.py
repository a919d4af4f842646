"""Columns of what the transformer gives: TRAINING a row a step, DECODING a row a time."""

from typing import Any

import pandera.pandas as pa

from experiments.transformer.curves import VERDICTS

OPERATORS = ("torch", "compiled", "ours")
WHATS = ("sample", "generate")
BATCHES = (1, 4, 16, 64)  # sequences of a full run's sampling and generating
# A graph or events on the GPU; as a caller waits; on the CPU.
TIMERS = ("graph", "events", "call", "host")
# For a fingerprint, of tables from before they had one.
UNKNOWN = "unknown"

_text: dict[str, Any] = {"coerce": True, "nullable": False}
_real: dict[str, Any] = {"coerce": True, "nullable": True}
_count = pa.Column(int, pa.Check.ge(1), coerce=True)
_operators = pa.Column(str, pa.Check.isin(OPERATORS), **_text)
_time = pa.Column(float, pa.Check.gt(0), coerce=True)
_sha256 = pa.Column(str, pa.Check.str_matches(f"^([0-9a-f]{{64}}|{UNKNOWN})$"), **_text)

# peak_bytes: in tensors of the run, at most in the step; unknown on a CPU.
# logits_bytes: of one copy in 16 bits.
TRAINING = pa.DataFrameSchema(
    {
        "operators": _operators,
        "seed": pa.Column(int, coerce=True),
        "turned": pa.Column(bool, coerce=True),
        "step": _count,
        "warm_up": pa.Column(bool, coerce=True),
        "loss": pa.Column(float, **_real),
        "step_ms": _time,
        "peak_bytes": pa.Column(float, pa.Check.gt(0), **_real),
        "logits_bytes": _count,
        "tokens": _count,
        "parameters": _count,
        "kernel_sha256": _sha256,
        "code_commit": pa.Column(str, **_text),
    },
    unique=["operators", "seed", "turned", "step"],
    strict=True,
    ordered=True,
)

# Of a call: one token of each sequence, or all that are generated.
DECODING = pa.DataFrameSchema(
    {
        "operators": _operators,
        "what": pa.Column(str, pa.Check.isin(WHATS), **_text),
        "timer": pa.Column(str, pa.Check.isin(TIMERS), **_text),
        "batch": _count,
        "cols": _count,
        "tokens": _count,
        "median_us": _time,
        "low_us": _time,
        "high_us": _time,
        "tokens_per_s": _time,
        "n_samples": _count,
        "kernel_sha256": _sha256,
        "code_commit": pa.Column(str, **_text),
    },
    unique=["operators", "what", "timer", "batch"],
    strict=True,
    ordered=True,
)

# A row a kind of run, all its seeds together.  Distances are between smoothed losses, relatively.
# Stale is ours, where its code is not today's or not known.
SUMMARY = pa.DataFrameSchema(
    {
        "operators": _operators,
        "turned": pa.Column(bool, coerce=True),
        "runs": _count,
        "loss": pa.Column(float, **_real),
        "step_ms": _time,
        "step_low_ms": _time,
        "step_high_ms": _time,
        "peak_bytes": pa.Column(float, pa.Check.gt(0), **_real),
        "distance": pa.Column(float, pa.Check.ge(0), **_real),
        "allowed": pa.Column(float, pa.Check.ge(0), **_real),
        "between_seeds": pa.Column(float, pa.Check.ge(0), **_real),
        "verdict": pa.Column(str, pa.Check.isin(VERDICTS), **_text),
        "stale": pa.Column(bool, coerce=True),
    },
    unique=["operators", "turned"],
    strict=True,
    ordered=True,
)
