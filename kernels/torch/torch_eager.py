"""torch_eager: torch.softmax as a user calls it.

moves    X once, Y once while a row fits on chip; torch re-reads longer rows
launch   torch's own dispatch (warp per row, registers, shared memory, or three reads)
holds    any shape
teaches  the baseline that every publication compares with
source   S1 to S5
"""

import torch
from torch import Tensor


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    return torch.softmax(x, dim=-1, out=out)
