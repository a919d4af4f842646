"""liger: Liger's softmax, its kernel and its settings, written to the caller's memory.

moves    X once, Y once, until the row spills
launch   grid = rows, block = next power of two, 4 to 32 warps by width: Liger's calculate_settings
holds    cols <= 65,536 (Liger raises beyond; its kernel for wider rows is never reached)
teaches  what a library makes of one program per row
source   liger-kernel 0.8.5, liger_kernel.ops.softmax; S5 compares with it
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def _imported(name: str) -> Any:
    """Module ``name`` of Liger, which asks whether peft is installed by importing it.

    With transformers that takes four seconds, for nothing that the kernels use.
    """
    absent = sys.modules.setdefault("peft", None) is None  # pyright: ignore[reportArgumentType]
    try:
        return importlib.import_module(f"liger_kernel.ops.{name}")
    finally:
        if absent:
            del sys.modules["peft"]


kernel = _imported("softmax")._softmax_single_block_forward_kernel
calculate_settings = _imported("utils").calculate_settings


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    rows, cols = x.shape
    block, warps = calculate_settings(cols)
    kernel[(rows,)](out, out.stride(0), x, x.stride(0), cols, BLOCK_SIZE=block, num_warps=warps)
    return out
