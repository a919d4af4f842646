"""What do few rows take where there are fewer of them than multiprocessors?

Predicts: a kernel that gives a row to one block takes as long for 64 rows as for one; a row that a
cluster or all blocks share, read once in one launch, stays within 2.5 microseconds or a quarter of
copy.  Drawn by figures/few_rows.py.  Source: own; the shapes of decoding.
"""

from experiments.sweeps.sweep import COPIES, PEERS, Sweep, powers

SWEEP = Sweep(
    rows=(*powers(2, 0, 6), 133),
    cols=(32_768, 50_257, 128_256, 131_072, 201_088, 2**20),
    dtypes=("float32", "bfloat16"),
    variants=(*COPIES, "torch_eager", "torch_compile", "triton_row", "frontier", *PEERS),
    quick_rows=(1, 16, 133),
    quick_cols=(32_768, 131_072),
)
