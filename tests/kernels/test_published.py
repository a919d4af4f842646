"""Kernels are what their publications print where a compiler could make more of ours, or less."""

import re
from collections import Counter
from functools import cache

import pytest

from kernels.compiled import Job
from kernels.cuda_compiler import Instance, compile_cuda, instances
from kernels.registry import variant
from tests.errata.compiler import disassembled, opcodes


@cache
def listings(name: str) -> dict[Instance, str]:
    """The machine code of every instance of ``name``."""
    v = variant(name)
    assert v.launch is not None
    made = compile_cuda(v, Job(name, "float32", "sm_90"))
    whole = disassembled(made.cubin)
    code = {k.symbol: whole.partition(f"Function : {k.symbol}\n")[2] for k in made.kernels}
    return {
        instance: code[k.symbol].partition("Function : ")[0]
        for instance, k in zip(instances(v.launch), made.kernels, strict=True)
    }


def loads(listing: str) -> Counter[str]:
    """How often each kind of load from global memory occurs."""
    return Counter({code: n for code, n in opcodes(listing).items() if code.startswith("LDG")})


def together(listing: str) -> int:
    """The most loads of 16 bytes of one instruction after another with no branch in between."""
    runs = re.split(r"\bBRA\b|\bBAR\b|\bEXIT\b", listing)
    return max(len(re.findall(r"\bLDG\.E\.128", run)) for run in runs)


@pytest.mark.parametrize("name", ["cuda_block_serial", "cuda_block_tree"])
def test_the_first_rungs_of_the_ladder_have_one_load_in_flight(name: str):
    # Once each for the maximum, the sum and the output: no loop is unrolled, as in S4's code.
    (listing,) = listings(name).values()
    assert loads(listing) == {"LDG.E": 3}


@pytest.mark.parametrize("name", ["cuda_warp_row", "cuda_block_row", "cuda_online_row"])
def test_rows_held_in_registers_are_loaded_without_a_branch_in_between(name: str):
    for instance, listing in listings(name).items():
        if not instance.edges:
            assert instance.tile is not None
            _, vectors = instance.tile
            assert loads(listing) == {"LDG.E.128": vectors}, instance
            assert together(listing) == vectors, instance


@pytest.mark.parametrize("name", ["cuda_online_reload", "cuda_split_reread"])
def test_rows_read_again_have_four_loads_in_flight(name: str):
    for instance, listing in listings(name).items():
        if not instance.edges:
            assert together(listing) == 4, instance
