"""How do Triton's ways of writing a softmax compare, held and streamed, float32 and float64 sums?

python -m figures.triton_paths TIDY.csv --hardware hardware.json --stem OUTDIR/triton_paths
"""

import pandas as pd

from experiments.sweeps.sweep import TRITON
from figures import FIGURES, page, vocab_scaling


def panels(tidy: pd.DataFrame) -> page.Grid:
    """One panel a dtype, with every Triton variant and copy."""
    return vocab_scaling.by_dtype(tidy[tidy["variant"].isin(("copy", *TRITON))])


if __name__ == "__main__":
    page.main(panels, FIGURES["triton_paths"])
