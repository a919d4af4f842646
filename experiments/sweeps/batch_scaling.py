"""How many rows does a variant need before it fills the memory system?

Predicts: one program per row needs a few rows a multiprocessor; below that the time of one row
rules, and it is flat.  Drawn by figures/batch_scaling.py.  Source: S1's batch scaling.
"""

from experiments.sweeps.sweep import SCALED, Sweep, powers

SWEEP = Sweep(
    rows=powers(2, 0, 16),
    cols=(1024, 8192, 32_000),
    dtypes=("float16", "float32"),
    variants=SCALED,
    quick_rows=powers(16, 0, 4),
)
