"""What does each step of the CUDA ladder gain, and where should the block grow?

python -m figures.cuda_ladder TIDY.csv --hardware hardware.json --stem OUTDIR/cuda_ladder
"""

import pandas as pd
from matplotlib.axes import Axes

from figures import FIGURES, page
from figures.curves import bandwidth

# Columns from which S4 gives a row 1024 threads for 512.
CROSSING = 14_080
BLOCKS = ("cuda_float4_256", "cuda_float4_512", "cuda_float4_1024", "cuda_float4")


def draw(ax: Axes, tidy: pd.DataFrame) -> None:
    """Useful GB/s against columns, on the linear axis of S4's plots."""
    ax.axvline(CROSSING, color="0.6", linewidth=0.8, label="14,080 columns: S4's crossing")
    bandwidth(ax, tidy, "cols", "columns", x_log=False)


def panels(tidy: pd.DataFrame) -> page.Grid:
    """The steps on the left; on the right the last step by the size of its block."""
    of_block = tidy["variant"].isin(BLOCKS)
    beside = tidy["variant"].isin(("copy", "triton_row"))
    steps = tidy[~of_block | (tidy["variant"] == "cuda_float4")]
    return [
        [
            page.Panel("step by step", steps, draw),
            page.Panel("float4 by threads a block", tidy[of_block | beside], draw),
        ]
    ]


if __name__ == "__main__":
    page.main(panels, FIGURES["cuda_ladder"])
