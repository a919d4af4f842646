"""Is one program per row faster than torch and four times faster than unfused steps?

Predicts: level with torch while its own kernels hold the row, ahead beyond; the steps at a quarter.
Drawn by figures/tutorial_cols.py.  Source: S2's plot, its axes unchanged.
"""

from experiments.sweeps.sweep import COPIES, Sweep

SWEEP = Sweep(
    rows=(4096,),
    cols=tuple(128 * i for i in range(2, 100)),
    dtypes=("float32",),
    variants=(*COPIES, "torch_eager", "torch_naive", "triton_row", "triton_persistent"),
    quick_cols=tuple(128 * i for i in range(2, 100, 8)),
)
