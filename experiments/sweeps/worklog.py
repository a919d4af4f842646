"""Which of the worklog's kernels holds up as a row outgrows a warp, a block, and the registers?

Predicts: each register kernel at copy speed until it spills (a warp beyond 4096 columns, a block
beyond 32,768), then below the kernels that read twice, which stay at two thirds.
Drawn by figures/worklog.py.  Source: S5's plots, its axes unchanged.
"""

from experiments.sweeps.sweep import COPIES, PEERS, WORKLOG, Sweep, powers

SWEEP = Sweep(
    rows=(2048,),
    cols=powers(2, 10, 18),
    dtypes=("float32",),
    variants=(*COPIES, "torch_eager", "torch_compile", "triton_row", "triton_online", *WORKLOG,
              *PEERS),
    quick_cols=(1024, 4096, 16_384, 65_536, 262_144),
)  # fmt: skip
