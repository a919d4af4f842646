"""quack: QuACK's softmax, written to the caller's memory.

moves    X once, Y once
launch   QuACK's own: 8 to 256 threads a row; above 16k columns of 16 bits, or 32k of 32, a cluster
         of 2 to 16 blocks
holds    cols a multiple of a 16-byte vector; rows that start on 16 bytes; compiled anew by cols
teaches  a row read once by a cluster through distributed shared memory
source   quack-kernels 0.6.5, quack.softmax; S5 compares with it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quack.softmax import _softmax_fwd  # pyright: ignore[reportMissingImports]

if TYPE_CHECKING:
    from torch import Tensor


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    _softmax_fwd(x, out)
    return out
