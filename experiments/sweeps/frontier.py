"""Does one family of kernels stay at copy speed for every width?

Predicts: 0.97 of copy or more to a million columns, where every other falls to two thirds or below
once a row leaves a block; less where a row is too wide for the rings of all multiprocessors to hold
several at once.  Drawn by figures/frontier.py.  Source: own.
"""

from experiments.sweeps.sweep import COPIES, PEERS, Fill, Sweep, powers
from experiments.sweeps.vocab_scaling import NAMED
from kernels.registry import DTYPES

# Widths of no whole vector, where rows start anywhere between two of them.
ODD = (63, 127, 257, 1001, 4097, 32_001, 100_003)

SWEEP = Sweep(
    rows=Fill(tensor_bytes=2**29),
    cols=tuple(sorted((32, *powers(2, 6, 20), 2**22, *NAMED, *ODD))),
    dtypes=DTYPES,
    variants=(
        *COPIES,
        "torch_eager",
        "torch_compile",
        "triton_row",
        "triton_frontier",
        "frontier",
        "frontier_invariant",
        *PEERS,
    ),
    quick_cols=(63, 1024, 50_257, 131_072, 1_048_576),
)
