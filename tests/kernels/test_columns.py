"""Softmax down columns: how tensors lie, what is chosen for them, and that it compiles."""

import re
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from experiments.columns_candidates import candidates
from kernels.ahead import COLUMNS
from kernels.compiled import Job
from kernels.frontier import columns
from kernels.frontier.columns_layout import Columns, apart, as_columns, unit_bytes
from kernels.frontier.columns_plans import (
    LARGEST_CLUSTER,
    MOST_POSTED,
    MOST_WORDS,
    UNITS,
    WORDS,
    choose,
    table,
)
from kernels.frontier.columns_plans import chosen as by_shape
from kernels.frontier.compiler import compile_plan
from kernels.frontier.frontier import Gpu
from kernels.frontier.plans import Shape
from kernels.frontier.select import DEFAULT
from kernels.registry import ARCHITECTURES, DTYPES, ELEMENT_BYTES
from tests.errata.compiler import disassembled

# What holds more of a strip than the rule does.
MEASURED = {entry.shape for entry in table(DEFAULT)}
SHAPES = (*COLUMNS, (1, 2048, 2048), (16, 5, 4096), (4, 512, 1001), (10**6, 4, 3), (10**5, 30, 2))


def _dense(outer: int, cols: int, inner: int) -> Columns:
    return Columns(outer, cols, inner, cols * inner, inner)


def test_what_lies_as_columns_is_told():
    for shape, strides, dim, expected in (
        ((5, 7), (7, 1), 0, Columns(1, 5, 7, 0, 7)),
        ((5, 7), (7, 1), -2, Columns(1, 5, 7, 0, 7)),
        ((5, 7), (9, 1), 0, Columns(1, 5, 7, 0, 9)),
        ((2, 5, 7), (35, 7, 1), 1, Columns(2, 5, 7, 35, 7)),
        ((2, 5, 3, 7), (105, 21, 7, 1), 1, Columns(2, 5, 21, 105, 21)),
        ((4, 2, 5, 7), (70, 35, 7, 1), 2, Columns(8, 5, 7, 35, 7)),
        ((4, 1, 5, 1, 7), (40, 3, 8, 99, 1), 2, Columns(4, 5, 7, 40, 8)),
        ((2, 5, 7), (7, 14, 1), 1, Columns(2, 5, 7, 7, 14)),
        ((5, 7), (0, 1), 0, Columns(1, 5, 7, 0, 0)),
        ((1, 7), (3, 1), 0, Columns(1, 1, 7, 0, 0)),
        # Rows, rows of one place, places apart, uneven slabs, no element, no dimension.
        ((5, 7), (7, 1), 1, None),
        ((5, 1), (1, 1), 0, None),
        ((5, 7), (1, 5), 0, None),
        ((5, 7), (14, 2), 0, None),
        ((2, 5, 3, 7), (120, 24, 8, 1), 1, None),
        ((4, 2, 5, 7), (80, 35, 7, 1), 2, None),
        ((0, 7), (7, 1), 0, None),
        ((), (), -1, None),
    ):
        assert as_columns(shape, strides, dim) == expected, (shape, strides, dim)


def test_results_go_where_no_two_share_a_place():
    for lies, fit in (
        (_dense(2, 5, 7), True), (Columns(1, 5, 7, 0, 6), False), (Columns(1, 1, 7, 0, 0), True),
        (Columns(2, 5, 7, 35, 7), True), (Columns(2, 5, 7, 34, 7), False),
        (Columns(2, 5, 7, 7, 14), True), (Columns(2, 5, 7, 6, 14), False),
        (Columns(3, 5, 7, 7, 14), False), (Columns(2, 1, 7, 0, 0), False),
    ):  # fmt: skip
        assert apart(lies) == fit, lies


@given(
    st.sampled_from(DTYPES),
    st.sampled_from([1, 2, 7, 100, 10**6]),
    st.one_of(st.integers(1, 100), st.integers(1, 10**5), st.integers(1, 2**31 - 1)),
    st.one_of(st.integers(2, 40), st.integers(2, 10**6)),
    st.booleans(),
    st.sampled_from([(80, 108), (86, 82), (90, 132), (100, 148)]),
)
def test_what_is_chosen_holds_its_rows_and_fits_the_gpu(
    dtype: str, outer: int, cols: int, inner: int, odd: bool, gpu: tuple[int, int]
):
    size = ELEMENT_BYTES[dtype]
    lies, (arch, multiprocessors) = _dense(outer, cols, inner), gpu
    unit = unit_bytes(size, inner * size, size if odd else 0)
    chosen = choose(lies, size, unit, False, arch, multiprocessors)
    assert chosen.units * unit == inner * size
    assert chosen.pitch >= chosen.units
    for plan in chosen.plans:
        of_unit, lanes, threads, blocks, *_ = plan.shape.sizes
        assert plan.file.is_file()
        assert of_unit == unit
        assert 32 <= threads <= 1024
        assert threads % lanes == 0
        assert lanes & (lanes - 1) == threads & (threads - 1) == 0
        assert chosen.strips * lanes >= outer * chosen.pitch > (chosen.strips - 1) * lanes
        # Lanes of a warp that share their places are as many in every strip.
        assert lanes <= 32 or lanes == threads
        if plan.shape.regime == "held":
            measured = arch in (90, 100) and plan.shape in MEASURED
            assert plan.held <= (MOST_WORDS // 4 if measured else min(UNITS, WORDS * 4 // unit))
            assert threads // lanes * (plan.held + plan.staged) >= chosen.share
            assert chosen.share * blocks >= cols
            assert blocks == chosen.splits <= (LARGEST_CLUSTER if arch in (90, 100) else 1)
        elif plan.shape.regime == "bands":
            assert chosen.places(size) <= MOST_POSTED
        else:
            assert threads >= lanes * unit // size
            assert (chosen.splits - 1) * chosen.share < cols <= chosen.splits * chosen.share
            assert chosen.splits <= 8 * multiprocessors
            assert chosen.partials_bytes(size) <= 8 * chosen.blocks * lanes * unit // size


def test_tensors_of_todays_sizes_are_read_once_on_hopper_and_fill_it():
    for dtype in DTYPES:
        size = ELEMENT_BYTES[dtype]
        for shape in ((1, 2048, 2048), (1, 4096, 4096), (1, 8192, 8192), (8, 1024, 512),
                      (1, 64, 10**6), (1, 32_768, 8192)):  # fmt: skip
            chosen = choose(_dense(*shape), size, 16, False, 90, 132)
            assert [plan.shape.regime for plan in chosen.plans] in (["held"], ["bands"])
            assert chosen.blocks > 132 // 2
        for shape in ((1, 10**6, 32), (1, 131_072, 256)):
            chosen = choose(_dense(*shape), size, 16, False, 90, 132)
            regimes = [plan.shape.regime for plan in chosen.plans]
            assert regimes in (["partials", "results"], ["bands"]), (dtype, shape)
            assert chosen.blocks > 132


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_kernels_compile_without_a_spill(arch: str):
    # Logarithms of 16 bits take a word or two more, stored and loaded, than there are registers
    # where no GPU has been tuned.
    most = {"sm_80": 16, "sm_100": 32}.get(arch, 0)
    for dtype in DTYPES if arch == "sm_90" else ("bfloat16",):
        size = ELEMENT_BYTES[dtype]
        for shape in SHAPES if arch == "sm_90" else COLUMNS:
            for log in (False, True)[: 1 + (shape in COLUMNS)]:
                unit = unit_bytes(size, shape[2] * size)
                for plan in choose(_dense(*shape), size, unit, log, int(arch[3:]), 132).plans:
                    used = compile_plan(plan, Job("frontier", dtype, arch)).kernels[0].resources
                    assert used.spill_bytes is not None
                    assert used.spill_bytes <= most, plan.label
                    assert used.registers is not None
                    assert used.registers * plan.threads <= 65_536


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_bands_and_polynomials_compile_without_a_spill(arch: str):
    held = Shape("held", (16, 4, 128, 16, 7, 0, 2))
    plans = {(by_shape(held, _dense(1, 4096, 4096), 2, 16, log=False).plans[0], "bfloat16")}
    if arch == "sm_80":  # which has no clusters
        plans.clear()
    for dtype, log in product(("float32", "bfloat16"), (False, True)):
        size = ELEMENT_BYTES[dtype]
        for shape in candidates(_dense(1, 131_072, 512), size, 16):
            plan = by_shape(shape, _dense(1, 4096, 4096), size, 16, log=log).plans[0]
            plans.add((plan, dtype))
    for plan, dtype in plans:
        used = compile_plan(plan, Job("frontier", dtype, arch)).kernels[0].resources
        assert used.spill_bytes == 0, (plan.label, dtype)


def test_units_go_to_memory_whole():
    for unit, shape, word in (
        (16, (1, 64, 2**20), "128"), (16, (1, 2**20, 32), "128"), (2, (1, 20, 33), "U16")
    ):  # fmt: skip
        for plan in choose(_dense(*shape), 2, unit, False, 90, 132).plans:
            made = compile_plan(plan, Job("frontier", "bfloat16", "sm_90"))
            code = disassembled(made.cubin)
            units = set(re.findall(r"LDG\.E\.(64|128|U16)", code))
            assert units >= {word}, plan.label
            if plan.shape.regime != "partials":
                assert set(re.findall(r"STG\.E(?:\.(64|128|U16))?", code)) == {word}, plan.label


def test_a_cluster_and_two_looks_are_launched(monkeypatch: pytest.MonkeyPatch):
    seen = []

    class Listening:
        def __init__(self, plan, grid, threads, shared, arguments, cluster=1, early=False):
            seen.append([plan.shape.regime, grid, threads, cluster, early, arguments])

        def __call__(self, stream: int, *pointers: int) -> None:
            seen.append(pointers)

    allowed = []
    monkeypatch.setattr(columns, "gpu", lambda device: Gpu("nvidia-h200", 90, 132))
    monkeypatch.setattr(columns, "kernel", lambda plan, dtype, device: plan)
    monkeypatch.setattr(columns, "allow", lambda plan, name, value: allowed.append(name))
    monkeypatch.setattr(columns, "Prepared", Listening)
    monkeypatch.setattr(
        columns, "launch", lambda device, key, prepare, *pointers: prepare()(0, *pointers)
    )
    x = torch.empty(2, 4096, 72)[..., :64]
    y = torch.empty(2, 4096, 64)
    columns.softmax(x, 1, y)
    steps = [4096 * 72, 72, 4096 * 64, 64]
    chosen = choose(Columns(2, 4096, 64, *steps[:2]), 4, 16, False, 90, 132)
    threads = chosen.plans[0].threads
    assert seen == [
        ["held", chosen.blocks, threads, chosen.splits, True,
         [None, None, *steps, 32, 16, 16, 4096]],
        (x.data_ptr(), y.data_ptr()),
    ]  # fmt: skip
    assert not allowed
    seen.clear()
    columns.softmax(torch.empty(65_536, 64), 0, torch.empty(65_536, 64))
    assert (seen[0][0], seen[0][3], allowed) == ("held", 16, ["NON_PORTABLE_CLUSTER_SIZE_ALLOWED"])
    seen.clear()
    x = torch.empty(300_000, 32)
    columns.softmax(x, 0, x)
    chosen = choose(Columns(1, 300_000, 32, 0, 32), 4, 16, False, 90, 132)
    tail = [8, 8, 8, 300_000, chosen.splits, chosen.share]
    assert seen[:2] == [
        ["partials", chosen.blocks, 512, 1, True, [None, None, 0, 32, *tail]],
        ["results", chosen.blocks, 512, 1, True, [None, None, None, 0, 32, 0, 32, *tail]],
    ]  # fmt: skip
    assert seen[2][0] == seen[3][0] == seen[3][2] == x.data_ptr()
    assert seen[2][1] == seen[3][1]


def test_what_does_not_lie_as_columns_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(columns, "launch", lambda device, key, prepare, *pointers: prepare())
    x = torch.empty(5, 7)
    for bad, dim, out in ((x, 1, x), (x.t(), 0, x.t()), (x, 0, torch.empty(1, 7).expand(5, 7))):
        with pytest.raises(ValueError, match=r"expected places side by side.* pass x\.contiguous"):
            columns.softmax(bad, dim, out)
