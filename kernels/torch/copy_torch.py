"""copy_torch: the same-shape copy by torch; every fraction is formed with it or with copy_memcpy.

moves    X once, Y once
launch   whatever torch picks for Tensor.copy_
holds    nothing
teaches  what torch's own copy reaches, the ceiling of a softmax that reads and writes once
source   torch.Tensor.copy_
"""

from torch import Tensor


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Copy ``x`` (rows, cols) to ``out``: not a softmax, the ceiling of one."""
    return out.copy_(x)
