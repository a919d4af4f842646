"""What does a caller wait for that the device does not do?

Predicts: every variant under 10 us on the device, and several times that for its caller: Triton's
and cuda.core's launchers are Python, torch's are not.  Drawn by figures/launch.py.  Source: S1's
wrapper with shapes as constants, S3's timing by the clock.
"""

from experiments.sweeps.sweep import COPIES, LADDER, PEERS, TORCH, TRITON, WORKLOG, Sweep

SWEEP = Sweep(
    rows=(1, 64, 1024),
    cols=(128, 1024, 8192),
    dtypes=("float32",),
    variants=(*COPIES, *TORCH, *TRITON, *LADDER, *WORKLOG, *PEERS),
    timers=("graph", "call"),
    quick_rows=(64,),
)
