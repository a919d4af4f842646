"""Kernels are what their publications print where a compiler could make more of ours, or less."""

import pytest

from kernels.compiled import Job
from kernels.cuda_compiler import compile_cuda
from kernels.registry import variant
from tests.errata.compiler import disassembled, opcodes


def loads(name: str) -> dict[str, int]:
    """How often each kind of load from global memory occurs in the one kernel of ``name``."""
    made = compile_cuda(variant(name), Job(name, "float32", "sm_90"))
    (kernel,) = made.kernels
    counts = opcodes(disassembled(made.cubin, kernel.symbol))
    return {code: n for code, n in counts.items() if code.startswith("LDG")}


@pytest.mark.parametrize("name", ["cuda_block_serial", "cuda_block_tree"])
def test_the_first_rungs_of_the_ladder_have_one_load_in_flight(name: str):
    # Once each for the maximum, the sum and the output: no loop is unrolled, as in S4's code.
    assert loads(name) == {"LDG.E": 3}
