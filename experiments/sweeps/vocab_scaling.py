"""How does bandwidth hold up as the vocabulary grows and the bytes stay the same?

Predicts: near copy while a program or block holds its row on chip (to about 32k columns), then a
fall to a half (three reads) or below (spills).  Drawn by figures/vocab_scaling.py and
figures/fraction_of_copy.py.  Source: S1's vocabulary scaling, widened.
"""

from experiments.sweeps.sweep import SCALED, Fill, Sweep, powers
from kernels.registry import DTYPES

# Vocabularies in use: a round 1000, Llama 2 (32000), GPT-2 (50257), Llama 3 (128256),
# Qwen 2 (151936), gpt-oss (201088).
NAMED = (1000, 32_000, 50_257, 128_256, 151_936, 201_088)

SWEEP = Sweep(
    rows=Fill(tensor_bytes=2**29),  # 2^27 elements of 4 bytes, 2^28 of 2
    cols=tuple(sorted((*powers(2, 6, 20), *NAMED))),
    dtypes=DTYPES,
    variants=SCALED,
    quick_cols=(64, 1024, 8192, 32_768, 50_257, 131_072, 1_048_576),
)
