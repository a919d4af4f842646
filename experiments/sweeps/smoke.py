"""Does the path from kernel to figure work here?  Tiny shapes, no GPU needed.

Its times are a CPU's and an interpreter's: they are never drawn with measurements.
Drawn by figures/smoke.py.
"""

from experiments.sweeps.sweep import SCALED, Sweep

SWEEP = Sweep(
    rows=(1, 5),
    cols=(1, 33, 128, 781),
    dtypes=("float32", "float16"),
    variants=SCALED,
    timers=("host",),
)
