"""What an A100 launches, on the GPU that is here: its kernels as PTX, which any later GPU takes.

A cubin for sm_80 runs on no other GPU, but PTX for compute_80 has the same code: what is chosen
before Hopper, without clusters, bulk copies and early launches.  The driver assembles it.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
from cuda.bindings import nvrtc

from kernels import cuda_compiler, prepared
from kernels.cuda_compiler import C_TYPES, STANDARD
from kernels.frontier import backward, choice, columns, cross_entropy, frontier
from kernels.frontier.plans import Plan

A100 = frontier.Gpu("nvidia-a100-sxm4-80gb", 80, 108)
MODULES = (frontier, backward, columns, cross_entropy, choice)


def ptx(plan: Plan, dtype: str) -> tuple[bytes, str]:
    """The kernel of ``plan`` for compute_80, as PTX and a 0, and its symbol.

    Not through cuda.core, which asks the driver, where there may be none, whether it takes PTX.
    """
    header = '#include "operators.cuh"\n' if plan.given else ""
    name = plan.expression(C_TYPES[dtype]).encode()
    source = (header + plan.file.read_text()).encode()
    program = _done(nvrtc.nvrtcCreateProgram(source, plan.file.name.encode(), 0, [], []))
    _done(nvrtc.nvrtcAddNameExpression(program, name))
    folders = (str(plan.file.parent), cuda_compiler._cuda_headers())
    options = ["--gpu-architecture=compute_80", f"--std={STANDARD}", "-default-device"]
    options += [f"--include-path={folder}" for folder in folders]
    words = [option.encode() for option in options]
    _done(nvrtc.nvrtcCompileProgram(program, len(words), words))
    text = b" " * _done(nvrtc.nvrtcGetPTXSize(program))
    _done(nvrtc.nvrtcGetPTX(program, text))
    return text, _done(nvrtc.nvrtcGetLoweredName(program, name)).decode()


def _done(answer: tuple[Any, ...]) -> Any:
    error, *values = answer
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS, error
    return values[0] if values else None


@cache
def kernel(plan: Plan, dtype: torch.dtype, device: int) -> Any:
    """As frontier.kernel, but of an A100's code."""
    return prepared.load(*ptx(plan, frontier.NAMES[dtype]))


@contextmanager
def as_an_a100() -> Iterator[list[Plan]]:
    """Within it everything is launched as an A100 would; gives the plans, as they are asked for.

    Prepared launches are a thread's own: what is launched from others is not an A100's for sure.
    """
    asked: list[Plan] = []

    def counted(plan: Plan, dtype: torch.dtype, device: int) -> Any:
        asked.append(plan)
        return kernel(plan, dtype, device)

    with ExitStack() as stack:
        stack.enter_context(patch.object(prepared.THREAD, "launches", {}))
        for module in MODULES:
            stack.enter_context(patch.multiple(module, gpu=lambda _: A100, kernel=counted))
        yield asked
