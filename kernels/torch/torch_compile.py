"""torch_compile: torch.softmax through torch.compile, with static shapes.

moves    X once, Y once while Inductor holds the row; more when it loops or splits
launch   Inductor's own choice, compiled anew for each shape
holds    any shape
teaches  what the compiler fuses by itself
source   torch.compile, default mode
"""

import torch
import torch._inductor.config
from torch import Tensor


def _rows(x: Tensor, out: Tensor) -> Tensor:
    return out.copy_(torch.softmax(x, dim=-1))


# One graph a shape: the default limit of 8 would fall back to eager in the middle of a sweep.
torch._dynamo.config.recompile_limit = 4096
torch._dynamo.config.accumulated_recompile_limit = 65_536
# Sweeps compile in processes of their own (experiments/warm.py); a pool in each would only start.
torch._inductor.config.compile_threads = 1
_compiled = torch.compile(_rows, dynamic=False, fullgraph=True)


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``; the first call of a shape compiles."""
    return _compiled(x, out)
