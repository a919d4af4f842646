"""What does accuracy cost: expf for __expf, a float64 sum for a float32 one?

Predicts: nothing where memory is the limit, one exponential an element; something in the online
forms, which take three.  exp2f has no variant: it is __expf's machine code.
What float64 costs is between triton_row and triton_row_f64; the tiled pair differs in more than
that, for S1 sums float64 lane by lane and float32 tile by tile.
Drawn by figures/numerics.py.  Source: S5's note on intrinsics, S1's numeric strategies.
"""

from experiments.sweeps.sweep import COPIES, WORKLOG, Fill, Sweep

SWEEP = Sweep(
    rows=Fill(tensor_bytes=2**29),
    cols=(1024, 8192, 32_768),
    dtypes=("float32",),
    variants=(*COPIES, "torch_eager", "triton_row", "triton_row_f64", "triton_tiled_4096",
              "triton_tiled_f64", *WORKLOG),
)  # fmt: skip
