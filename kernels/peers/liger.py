"""liger: Liger's softmax, its kernel and its settings, written to the caller's memory.

moves    X once, Y once, until the row spills
launch   grid = rows, block = next power of two, 4 to 32 warps by width: Liger's calculate_settings
holds    cols <= 65,536 (Liger raises beyond; its kernel for wider rows is never reached)
teaches  what a library makes of one program per row
source   liger-kernel 0.8.5, liger_kernel.ops.softmax; S5 compares with it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from liger_kernel.ops.softmax import (  # pyright: ignore[reportMissingImports]
    _softmax_single_block_forward_kernel as kernel,
)
from liger_kernel.ops.utils import (  # pyright: ignore[reportMissingImports]
    calculate_settings,
)

if TYPE_CHECKING:
    from torch import Tensor


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    rows, cols = x.shape
    block, warps = calculate_settings(cols)
    kernel[(rows,)](out, out.stride(0), x, x.stride(0), cols, BLOCK_SIZE=block, num_warps=warps)
    return out
