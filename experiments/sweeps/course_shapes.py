"""Do the course's conclusions hold at its shapes, and at those of its exercises?

Predicts: all of them fit in the L2 and last microseconds, so that launches decide what a caller
sees; 16 rows leave most of the GPU idle.  Drawn by figures/course_shapes.py.  Source: S3.
"""

from experiments.sweeps.sweep import COPIES, TORCH, Sweep

SWEEP = Sweep(
    shapes=((256, 1024), (1024, 1024), (4096, 1024), (16, 8192), (8192, 128), (2048, 2048)),
    dtypes=("float32",),
    variants=(*COPIES, *TORCH, "triton_row", "triton_persistent", "triton_tiled_1024"),
    timers=("graph", "call"),
)
