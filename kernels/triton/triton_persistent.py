"""triton_persistent: as many programs as fit on the GPU at once, each doing every n-th row.

moves    X once, Y once
launch   grid = multiprocessors x programs that fit by registers and shared memory, 8 warps,
         block = next power of two, rows loaded 4 (2 on small shared memory) stages ahead
holds    cols <= 16,384, padded to a power of two; any row stride
teaches  loading the next row while this one is worked on, and what fixed shares of rows cost
source   S2, the tutorial's present form
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

from kernels.specialise import Specialisation

if TYPE_CHECKING:  # compiling needs no torch
    from collections.abc import Iterator

    from torch import Tensor

WARPS = 8


@triton.jit
def _softmax(
    x_ptr,
    out_ptr,
    x_stride,
    out_stride,
    rows,
    cols,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    lane = tl.arange(0, BLOCK)
    inside = lane < cols
    wide = tl.full([], 1, tl.int64)  # offsets of 64 bits
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        at = row * wide
        x = tl.load(x_ptr + at * x_stride + lane, mask=inside, other=-float("inf")).to(tl.float32)
        numerator = tl.exp(x - tl.max(x, axis=0))
        y = numerator / tl.sum(numerator, axis=0)
        tl.store(out_ptr + at * out_stride + lane, y.to(out_ptr.dtype.element_ty), mask=inside)


_programs: dict[tuple[object, ...], tuple[int, int]] = {}


def fit(x: Tensor, out: Tensor, block: int) -> tuple[int, int]:
    """Programs that the GPU holds at once, and stages, for rows in blocks of ``block``."""
    if not x.is_cuda:
        return 3, 2  # the interpreter: a program with several rows, whatever the machine
    # A compilation for each, whose registers differ: 1 and multiples of 16 are known to Triton.
    numbers = (x.stride(0), out.stride(0), *x.shape)
    key = (x.device.index, x.dtype, block, *((n == 1, n % 16 == 0) for n in numbers))
    if key not in _programs:
        gpu = triton.runtime.driver.active.utils.get_device_properties(x.device.index)
        stages = 4 if gpu["max_shared_mem"] > 200_000 else 2
        kernel = _softmax.warmup(  # pyright: ignore[reportFunctionMemberAccess]
            x,
            out,
            x.stride(0),
            out.stride(0),
            *x.shape,
            BLOCK=block,
            STAGES=stages,
            num_warps=WARPS,
            grid=(1,),
        )
        kernel._init_handles()
        by_registers = gpu["max_num_regs"] // (kernel.n_regs * gpu["warpSize"] * WARPS)
        by_memory = gpu["max_shared_mem"] // max(1, kernel.metadata.shared)
        resident = max(1, min(by_registers, by_memory))
        _programs[key] = gpu["multiprocessor_count"] * resident, stages
    return _programs[key]


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Row softmax of ``x`` (rows, cols) into ``out``."""
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    programs, stages = fit(x, out, block)
    _softmax[(min(rows, programs),)](
        x,
        out,
        x.stride(0),
        out.stride(0),
        rows,
        cols,
        BLOCK=block,
        STAGES=stages,
        num_warps=WARPS,
    )
    return out


def specialisations() -> Iterator[Specialisation]:
    """The blocks of S2's plot from 1024 columns on, as staged where shared memory is large."""
    for log2 in range(10, 15):
        constants = {"BLOCK": 2**log2, "STAGES": 4}
        yield Specialisation(_softmax, constants, WARPS, cols_held=2**log2)
