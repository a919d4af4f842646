"""flashinfer: FlashInfer's softmax for sampling, without a temperature, in the caller's memory.

moves    X twice while the row is streamed, once where it fits in shared memory; Y once
launch   FlashInfer's own: a block per row, or a row cut into slices and two launches for few rows
holds    float32; contiguous rows; compiled by nvcc at the first call
teaches  the online form as a serving library has it
source   flashinfer-python 0.7.2, csrc/sampling.cu (OnlineSoftmax); Milakov and Gimelshein 2018
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from flashinfer.jit.sampling import (  # pyright: ignore[reportMissingImports]
    gen_sampling_module,
)
from flashinfer.utils import device_support_pdl  # pyright: ignore[reportMissingImports]

if TYPE_CHECKING:
    from torch import Tensor

# As flashinfer.sampling.softmax has it.
WORKSPACE_BYTES = 2**20
TEMPERATURE = 1.0


@cache
def _ready(device: torch.device) -> tuple[Any, Tensor, bool]:
    """The compiled module, and what FlashInfer's own wrapper keeps for a device."""
    workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=device)
    return gen_sampling_module().build_and_load(), workspace, device_support_pdl(device)


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    module, workspace, pdl = _ready(x.device)
    module.softmax(workspace, x, out, None, TEMPERATURE, pdl)
    return out
