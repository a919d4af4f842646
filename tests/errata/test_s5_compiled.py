"""S5: registers, spills, instructions and multiprocessors, as the compiler has them."""

from pathlib import Path

import pytest

from kernels.compiled import CompileError
from kernels.cuda_compiler import _cuda_headers
from tests.errata.compiler import (
    A100,
    H100,
    RTX_2080,
    RTX_3090,
    Code,
    compiled,
    rows,
    threads_a_multiprocessor,
)

WARP, BLOCK = 32, 1024
REGISTERS = 65_536  # of a multiprocessor
POWERS = (1, 2, 4, 8, 16, 32, 64)
# In one program: NVRTC reads its headers once.
HELD = tuple(f"bounded<{threads}, {n}>" for threads in (WARP, BLOCK) for n in POWERS)
OTHERS = (
    f"unbounded<{BLOCK}, 16>", "reduced<8>", "reduced<64>",
    "twice<32, true>", "twice<32, false>", "twice<64, true>",
)  # fmt: skip


def code(name: str) -> Code:
    return rows(HELD + OTHERS)[name]


def spills(name: str) -> bool:
    return code(name).spill_stores > 0


def held(threads: int, cols: int) -> str:
    """The kernel that holds a row of ``cols`` in the registers of so many threads."""
    return f"bounded<{threads}, {cols // threads // 4}>"


def loads(name: str, kind: str) -> int:
    """Instructions of ``name`` that start like ``kind``."""
    return sum(n for opcode, n in code(name).instructions.items() if opcode.startswith(kind))


def test_1024_threads_cannot_take_a_row_of_less_than_4096_columns():
    assert 2048 // (BLOCK * 4) == 0
    for cols in (1024, 2048):
        with pytest.raises(CompileError, match="array must be greater than zero"):
            rows((f"whole_row<{cols}>",))
    assert rows(("whole_row<4096>",))["whole_row<4096>"].spill_stores == 0


def test_a_warp_holds_4096_columns_without_spilling():
    assert not spills(held(WARP, 4096))
    assert code(held(WARP, 4096)).registers < 160
    assert spills(held(WARP, 8192))


def test_1024_threads_spill_at_65536_columns():
    assert spills(held(BLOCK, 65_536))
    assert not spills(held(BLOCK, 32_768))
    assert REGISTERS // BLOCK == 64  # a thread's share, and 64 floats leave nothing of it


def test_the_launch_bound_sets_64_registers_without_maxrregcount():
    bounded, unbounded = code(held(BLOCK, 65_536)), code(f"unbounded<{BLOCK}, 16>")
    assert bounded.registers == REGISTERS // BLOCK
    assert bounded.spill_stores > 0
    assert unbounded.registers > 64
    assert unbounded.spill_stores == 0


def test_the_spill_moves_8_times_further_not_32_times():
    def widest(threads: int) -> int:
        return max(4 * threads * n for n in POWERS if not spills(f"bounded<{threads}, {n}>"))

    assert (widest(WARP), widest(BLOCK)) == (4096, 32_768)
    assert widest(BLOCK) // widest(WARP) == 8 != BLOCK // WARP


def test_a_block_of_78_registers_a_thread_fits_no_multiprocessor():
    def blocks(registers: int) -> int:
        return REGISTERS // (registers * BLOCK)

    assert round(REGISTERS / (78 * BLOCK), 2) == 0.82
    assert blocks(78) == 0
    assert blocks(code(f"unbounded<{BLOCK}, 16>").registers) == 0
    assert blocks(code(held(BLOCK, 65_536)).registers) == 1


def test_a_block_of_1024_threads_fills_different_shares_of_different_multiprocessors():
    share = {a: BLOCK / threads_a_multiprocessor(a) for a in (A100, RTX_2080, RTX_3090)}
    assert share == {A100: 0.5, RTX_2080: 1.0, RTX_3090: 2 / 3}


def test_an_a100_holds_as_many_threads_as_an_h100():
    assert threads_a_multiprocessor(A100) == threads_a_multiprocessor(H100) == 2048


def test_spills_are_local_loads_and_stores():
    name = held(BLOCK, 65_536)
    assert loads(name, "LDL") > 0
    assert loads(name, "STL") > 0
    assert (loads(name, "LDG"), loads(name, "STG")) == (16, 16)  # the row itself


def test_ldg_keeps_the_second_read_apart_and_does_nothing_else():
    def one_load(expression: str) -> str:
        source = f"""template <int>
        __global__ void kernel(const float *__restrict__ x, float *__restrict__ out) {{
            out[threadIdx.x] = {expression};
        }}"""
        return compiled(source, ("kernel<0>",))["kernel<0>"].listing

    assert one_load("__ldg(x + threadIdx.x)") == one_load("x[threadIdx.x]")
    # A row of 131,072 columns: without __ldg the compiler reads it once, holds it and spills.
    assert loads("twice<32, true>", "LDG") == 64
    assert not spills("twice<32, true>")
    assert loads("twice<32, false>", "LDG") == 32
    assert spills("twice<32, false>")


def test_splitting_a_row_saves_no_registers():
    split, whole = code("reduced<8>"), code("reduced<64>")
    assert split.registers == whole.registers == 32  # the estimate: 8 * 4 of data and 16
    assert (split.spill_stores, whole.spill_stores) == (0, 0)
    assert not spills("twice<64, true>")  # 262,144 columns, unsplit


def test_blocks_can_meet_inside_a_launch():
    # The interface's own words and declaration: running it takes a GPU.
    from cuda.bindings import driver

    words = (driver.cuLaunchCooperativeKernel.__doc__ or "").split()
    assert "thread blocks can cooperate and synchronize as they execute" in " ".join(words)
    header = (Path(_cuda_headers()) / "cooperative_groups.h").read_text()
    grid = header.partition("class grid_group :")[2].partition("\nclass ")[0]
    assert "void sync() const" in grid


def arithmetic(expression: str) -> Code:
    source = f"""template <int> __global__ void kernel(float *x) {{ x[0] = {expression}; }}"""
    return compiled(source, ("kernel<0>",))["kernel<0>"]


def test_frcp_rn_is_the_exact_reciprocal_and_expf_the_approximate_exponential():
    assert arithmetic("__frcp_rn(x[0])").listing == arithmetic("1.0f / x[0]").listing
    fast = arithmetic("__fdividef(1.0f, x[0])")
    assert fast.listing != arithmetic("1.0f / x[0]").listing
    # __expf: one rounded product and the exponential of the special function unit.
    assert "1.44269502" in arithmetic("__expf(x[0])").listing
    assert arithmetic("__expf(x[0])").instructions["MUFU.EX2"] == 1
