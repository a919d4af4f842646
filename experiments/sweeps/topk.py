"""What is it worth to take the k largest probabilities in the sweep that sums them?

Predicts: several times the speed of torch.softmax and torch.topk for few, which write every
probability and read it again; ever less as k grows, since each thread keeps a list of k and
insertions, not the memory, come to limit it.  The fraction of copy may pass 1, for copy writes too.
Drawn by figures/topk.py.  Source: Milakov and Gimelshein 2018, whose axes are 4000 and 10 rows, up
to 100,000 columns and k of 5 to 30.
"""

from experiments.sweeps.sweep import COPIES, TOPK, Sweep

SWEEP = Sweep(
    rows=(4000,),
    cols=(1000, 4000, 10_000, 32_000, 100_000),
    dtypes=("float32",),
    variants=(*COPIES, *TOPK),
    again="torch_topk_8",
    quick_cols=(1000, 10_000, 100_000),
)
