"""torch_compile: torch.softmax through torch.compile, with static shapes.

moves    X once, Y once while Inductor holds the row; more when it loops or splits
launch   Inductor's own choice, compiled anew for each shape
holds    any shape
teaches  what the compiler fuses by itself
source   torch.compile, default mode
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch._inductor.config
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType


def _rows(x: Tensor, out: Tensor) -> Tensor:
    return out.copy_(torch.softmax(x, dim=-1))


# One graph a shape: the default limit of 8 would fall back to eager in the middle of a sweep.
torch._dynamo.config.recompile_limit = 4096
torch._dynamo.config.accumulated_recompile_limit = 65_536
# Sweeps compile in processes of their own (experiments/pool.py); a pool in each would only start.
torch._inductor.config.compile_threads = 1
_compiled = torch.compile(_rows, dynamic=False, fullgraph=True)


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``; the first call of a shape compiles."""
    return _compiled(x, out)


def tuned() -> str:
    """The Triton kernels that Inductor loaded since the last question, with what it chose."""
    # Importing it takes seconds, and torch.compile has done so by now.
    from torch._inductor.codecache import PyCodeCache

    new = PyCodeCache.modules[_asked[0] :]
    _asked[0] += len(new)
    return ", ".join(choices(new))


_asked = [0]


def choices(modules: Iterable[ModuleType]) -> list[str]:
    """'kernel(XBLOCK=1, R0_BLOCK=2048, num_warps=16)' for each autotuned kernel, once."""
    found = {}
    for module in modules:
        for name, value in vars(module).items():
            for launcher in getattr(value, "launchers", ())[:1]:  # tuning leaves the fastest
                config = launcher.config
                settings = {**config.kwargs, "num_warps": config.num_warps}
                found[name] = ", ".join(f"{k}={v}" for k, v in settings.items())
    return [f"{name}({settings})" for name, settings in found.items()]
