"""What tests/gpu/test_frontier_proof.py launches where there is a GPU, counted without one."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from experiments.launches import Case, Gpu, chosen, widest_dealt
from experiments.layout import BY_NAME, LAYOUTS
from experiments.wrapped import turns, turns_of_places
from kernels.compiled import Job
from kernels.frontier.compiler import compile_plan
from kernels.frontier.plans import ALIKE, APART, NONE, REGIMES, Shape
from kernels.frontier.select import DEFAULT, FEW, MANY, Request, possible, select
from kernels.occupancy import MULTIPROCESSORS, blocks
from kernels.registry import DTYPES, ELEMENT_BYTES
from tests.gpu import drawn as drawing
from tests.gpu.drawn import COUNT, GUARD, Drawn, drawn, fault
from tests.gpu.test_frontier_proof import (
    DEALT,
    FAR,
    GRID_WIDE,
    LARGE,
    NEAREST,
    REPEATED,
    STEPPED,
    STEPS,
    far,
    one_row,
    stepped,
)
from tests.gpu.together import SCRATCH_WORDS, WIDE, Wide, all_posted

H200 = Gpu(DEFAULT, 90, 132)
DRAWN = drawn()
CASES = [one.case(H200) for one in DRAWN]
# Of a thousand, at least.
REGIME_FLOORS = {
    "warp": 250, "tile": 80, "block": 80, "cluster": 120, "staged": 20, "grid": 80, "chunks": 60,
    "stream": 20,
}  # fmt: skip


def test_a_thousand_different_rows_are_drawn_and_always_the_same():
    assert len({replace(one, seed=0) for one in DRAWN}) == len(DRAWN) == COUNT == 1000
    assert drawn(50) == DRAWN[:50]


def test_every_regime_gets_its_share_with_edges_of_every_kind():
    counts = Counter(case.shape.regime for case in CASES)
    assert {r: counts[r] for r in REGIMES if counts[r] < REGIME_FLOORS[r]} == {}
    kinds = Counter(case.plan.edges for case in CASES)
    assert min(kinds[kind] for kind in (NONE, ALIKE, APART)) >= 250
    dtypes = Counter(case.dtype for case in CASES)
    assert min(dtypes[dtype] for dtype in DTYPES) >= 250
    both = {(case.shape.regime, case.plan.edges) for case in CASES}
    # A tile's rows are a row with edges, whatever they have.
    assert both == {(r, k) for r in REGIMES for k in (NONE, ALIKE, APART)} - {("tile", NONE)}


def test_few_rows_and_many_are_drawn_in_all_kinds_of_memory():
    assert sum(one.rows > FEW for one in DRAWN) >= 250
    assert sum(1 < one.rows <= FEW for one in DRAWN) >= 250
    assert sum(one.rows > 10_000 for one in DRAWN) >= 80
    assert sum(one.cols > 2**20 for one in DRAWN) >= 30
    as_many = [
        case.shape == chosen(case.layout, case.dtype, MANY, case.cols, H200) for case in CASES
    ]
    assert sum(as_many) >= 300
    assert sum(one.expanded for one in DRAWN) >= 20
    assert sum(one.layout.in_place for one in DRAWN) >= 40
    assert sum(not one.lies.contiguous for one in DRAWN) >= 250
    forced = Counter(one.forced.regime for one in DRAWN if one.forced)
    assert set(forced) == {"stream", "staged"}
    # What a test on a GPU moves: some seconds of checking in float64.
    assert sum(case.rows * case.cols for case in CASES) < 3e9


def test_what_is_drawn_can_be_launched():
    for one, case in zip(DRAWN, CASES, strict=True):
        asked = Request(
            case.dtype, case.rows, case.cols, case.layout.edges(case.cols, size(case)),
            case.layout.contiguous, lines=False, arch=90, multiprocessors=132,
        )  # fmt: skip
        assert possible(case.shape, asked), str(one)
        assert not (one.expanded and one.layout.in_place)
        # The input's stride is 0 where it is expanded; no row of results lies in another.
        assert case.layout.gap_out >= 0
        assert (case.cols + case.layout.gap_x == 0) == one.expanded
        assert one.expanded or case.layout.gap_x >= 0


def size(case: Case) -> int:
    return ELEMENT_BYTES[case.dtype]


def stand_in(x: Tensor, out: Tensor, forced: Shape | None) -> None:
    out.copy_(torch.softmax(x.double(), -1))


SMALL = [one for one in DRAWN if one.rows * one.cols < 5000]


def test_drawn_rows_are_right_where_torch_writes_them():
    assert {case.layout.edges(case.cols, size(case)) for case in CASES} == {NONE, ALIKE, APART}
    some = SMALL[:100]
    assert any(one.expanded for one in some)
    assert any(one.layout.in_place for one in some)
    assert {
        str(one): fault(one, "cpu", stand_in) for one in some if fault(one, "cpu", stand_in)
    } == {}


def test_memory_on_the_cpu_lies_as_the_case_says(monkeypatch: pytest.MonkeyPatch):
    for one in SMALL[:200]:

        def look(x: Tensor, out: Tensor, forced: Shape | None, one: Drawn = one) -> None:
            lies, cols = one.lies, one.cols
            if one.rows > 1:
                assert (x.stride(0), out.stride(0)) == (cols + lies.gap_x, cols + lies.gap_out)
            elements = ELEMENT_BYTES[one.dtype]
            for tensor, before in ((x, lies.before_x), (out, lies.before_out)):
                assert (tensor.data_ptr() - before * elements) % 64 == 0
            stand_in(x, out, forced)

        assert fault(one, "cpu", look) == ""


@pytest.mark.parametrize("where", ["before", "after", "input", "beside", "wrong"])
def test_a_fault_beside_drawn_rows_is_found(where: str):
    def launch(x: Tensor, out: Tensor, forced: Shape | None) -> None:
        stand_in(x, out, forced)
        last = out.storage_offset() + (one.rows - 1) * out.stride(0) + one.cols
        whole = out.as_strided((out.untyped_storage().nbytes() // out.element_size(),), (1,), 0)
        match where:
            case "before":
                whole[out.storage_offset() - 1] = 0.5
            case "after":
                whole[last] = 0.5
            case "input":
                x[-1, -1] += 1
            case "beside":  # an element before the input's is taken for one of its own
                around = x.as_strided((one.rows, one.cols + 1), x.stride(), x.storage_offset() - 1)
                out.copy_(torch.softmax(around.double(), -1)[:, 1:])
            case _:
                out[0, 0] += 0.25

    one = next(o for o in SMALL if o.rows > 2 and o.cols > 8 and not o.layout.in_place
               and not o.expanded)  # fmt: skip
    assert fault(one, "cpu", launch) != ""


def test_dealt_rows_of_the_gpu_wrap_every_ring_more_than_twice():
    for wide in (*REPEATED, *GRID_WIDE):
        if wide.shape.regime == "chunks":
            case = Case(wide.shape, wide.dtype, wide.rows, wide.cols, LAYOUTS[0])
            assert turns(case, H200.multiprocessors) > 2, str(case)
            assert turns_of_places(case, H200.multiprocessors) > 1, str(case)
            assert wide.rows * wide.cols * ELEMENT_BYTES[wide.dtype] < 80e6
    assert len(DEALT) > 2


@pytest.mark.parametrize("wide", [*REPEATED, *GRID_WIDE, *WIDE], ids=str)
def test_rows_that_all_multiprocessors_share_can_be_launched(wide: Wide):
    layout = LAYOUTS[0]
    asked = Request(
        wide.dtype, wide.rows, wide.cols, layout.edges(wide.cols, ELEMENT_BYTES[wide.dtype]),
        contiguous=True, lines=False, arch=90, multiprocessors=132, invariant=wide.shape.invariant,
    )  # fmt: skip
    assert possible(wide.shape, asked)


def test_large_tensors_and_rows_far_apart_are_of_many_regimes():
    regimes = Counter()
    for dtype, rows, cols, gap in LARGE:
        assert rows * cols > 2**31
        layout = replace(LAYOUTS[0], gap_x=gap)
        regimes[chosen(layout, dtype, rows, cols, H200).regime] += 1
    assert set(regimes) == set(REGIMES) - {"grid", "stream"}
    assert any(gap for *_, gap in LARGE)
    assert {dtype for dtype, *_ in LARGE} == {"float32", "bfloat16"}
    assert {shape.regime for shape in FAR} == set(REGIMES) - {"tile"}  # whose rows lie side by side
    for more, kinds in ((8, {NONE, ALIKE}), (1, {ALIKE})):
        assert {case.plan.edges for case in far(more)} == kinds
        for case in far(more):
            assert case.cols + case.layout.gap_x == case.cols + case.layout.gap_out == 2**31 + more


def test_numbers_of_rows_that_keep_their_bits_are_served_by_several_shapes():
    for dtype, cols in STEPPED:
        some = stepped(dtype, cols, H200)
        assert all(case.shape.invariant for case in some)
        assert [case.rows for case in some] == [*STEPS, STEPS[-1] + 100]
        assert len({case.shape for case in some}) > (cols > 1000)
    assert len({case.shape.regime for it in STEPPED for case in stepped(*it, H200)}) >= 4


@pytest.mark.parametrize("layout", ["contiguous", "one element off", "sliced input"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_widest_dealt_row_has_streamed_ones_beside_it(dtype: str, layout: str):
    widest, step = widest_dealt(dtype, BY_NAME[layout], H200)
    assert widest > 6_000_000
    one = Drawn(dtype, 1, widest, one_row(BY_NAME[layout]), False, None, 1)
    found = [replace(one, cols=widest + step * n).case(H200).shape.regime for n in (-1, 0, 1)]
    assert found == ["chunks", "chunks", "stream"]
    # Rows that start with a line are dealt out somewhat longer, and not as far as is looked.
    kind = one.layout.edges(widest, ELEMENT_BYTES[dtype])
    far_off = Request(
        dtype, 1, widest + step * NEAREST[-1], kind, contiguous=True, lines=kind == NONE, arch=90,
        multiprocessors=132,
    )  # fmt: skip
    assert step == 1 or select(far_off, DEFAULT).regime == "stream"


@pytest.mark.parametrize("wide", WIDE, ids=str)
def test_half_of_the_gpu_holds_no_launch_whose_blocks_wait_for_one_another(wide: Wide):
    plan = wide.shape.plan(wide.cols, ELEMENT_BYTES[wide.dtype], wide.cols % 4 > 0)
    used = compile_plan(plan, Job("frontier", wide.dtype, "sm_90")).kernels[0].resources
    assert used.registers is not None
    assert used.static_shared_bytes is not None
    fit = blocks(
        "sm_90", plan.threads, used.registers, used.static_shared_bytes + plan.ring_bytes
    )  # fmt: skip
    dealt = wide.shape.regime == "chunks"
    launched = H200.multiprocessors if dealt else wide.rows * wide.shape.sizes[1]
    assert launched > fit * (H200.multiprocessors // 2) > 0
    assert fit <= MULTIPROCESSORS["sm_90"].blocks


def test_what_is_posted_for_those_who_wait_is_the_first_launchs():
    words = all_posted().tolist()
    assert len(words) == SCRATCH_WORDS - 2  # behind four numbers of 32 bits
    maxima, sums = set(words[::2]), set(words[1::2])
    assert {word >> 32 for word in maxima | sums} == {1}
    low = torch.tensor([word & 0xFFFFFFFF for word in (*maxima, *sums)], dtype=torch.int32)
    assert low.view(torch.float32).tolist() == [0.0, 1.0]


def test_a_guard_leaves_lines_of_memory_where_they_are():
    assert all(GUARD * elements % 128 == 0 for elements in ELEMENT_BYTES.values())
    assert {e.regime for e in drawing.STAGES} == {"staged"}
