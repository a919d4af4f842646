"""What does each step of the CUDA ladder gain, and where should the block grow?

Predicts: most of it from one thread to a block a row; reductions by tree or shuffle make no
difference; float4 gains where loads, not the second trip of the parked exponentials, are the
limit.  Drawn by figures/cuda_ladder.py.  Source: S4's plots; S4 found 512 threads best up to 14,080
columns and 1024 above.
"""

from experiments.sweeps.sweep import COPIES, LADDER, Sweep

SWEEP = Sweep(
    rows=(4096,),
    cols=(256, 512, *range(1024, 12_289, 1024), 13_312, 14_080, 14_336, 15_360, 16_384, 24_576,
          32_768),
    dtypes=("float32",),
    variants=(*COPIES, "torch_eager", "torch_naive", "triton_row", *LADDER),
    quick_cols=(256, 1024, 4096, 8192, 14_080, 16_384, 32_768),
)  # fmt: skip
