"""What does a decoding step wait for: few rows of a language model's vocabulary?

Predicts: latency set by one row's trip through one multiprocessor for the kernels that give a row
to one program or block, so that 1 row and 128 rows take the same time.  Both timers: the device
alone, and what the caller waits for.  Drawn by figures/small_batch.py.  Source: S1's small batch.
"""

from experiments.sweeps.sweep import SCALED, Sweep, powers

SWEEP = Sweep(
    rows=powers(2, 0, 8),
    cols=(32_000, 50_257, 128_256, 201_088),
    dtypes=("bfloat16",),
    variants=SCALED,
    timers=("graph", "call"),
    quick_rows=(1, 16, 256),
    quick_cols=(32_000, 128_256),
)
