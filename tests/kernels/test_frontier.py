"""The frontier's plans hold the rows they are made for, and every request has a possible one."""

import json
import warnings
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.ahead import AHEAD, ahead
from kernels.cuda_compiler import C_TYPES, program, ptxas_facts
from kernels.frontier import frontier
from kernels.frontier import select as selecting
from kernels.frontier.backward_plans import BackwardPlan
from kernels.frontier.plans import (
    ALIKE,
    APART,
    EDGES,
    LINE,
    NONE,
    REGIMES,
    TILE_BYTES,
    VECTOR_BYTES,
    Shape,
    deal,
    staged_bytes,
    staged_vectors,
    tile_apart,
    tile_rows,
    vectors_from_line,
)
from kernels.frontier.select import (
    DEFAULT,
    EARLY_BLOCKS,
    HELD_IN_64_REGISTERS,
    INVARIANT_COLS,
    MANY,
    STREAM,
    TABLES,
    Entry,
    Request,
    possible,
    select,
    table,
)
from kernels.registry import DTYPES, ELEMENT_BYTES

SHARED_OF_A_BLOCK = 227 * 1024  # on Hopper
ENTRIES = json.loads((TABLES / f"{DEFAULT}.json").read_text())["entries"]


@st.composite
def requests(draw: st.DrawFn) -> Request:
    dtype = draw(st.sampled_from(DTYPES))
    cols = draw(st.one_of(st.integers(1, 5000), st.integers(1, 2**23)))
    ragged = cols * ELEMENT_BYTES[dtype] % VECTOR_BYTES != 0
    edges = draw(st.sampled_from((ALIKE, APART) if ragged else (NONE, ALIKE, APART)))
    arch, multiprocessors = draw(st.sampled_from([(80, 108), (90, 132), (100, 148)]))
    return Request(
        dtype=dtype, rows=draw(st.integers(1, 2**22)), cols=cols, edges=edges,
        contiguous=draw(st.booleans()), lines=not edges and draw(st.booleans()),
        arch=arch, multiprocessors=multiprocessors,
    )  # fmt: skip


def test_what_one_regime_alone_knows_stands_in_no_other_ones_entries():
    known = {"together": "warp", "early": "warp", "exchanges": "block"}
    found = set()
    for path in TABLES.rglob("*.json"):
        for entry in json.loads(path.read_text())["entries"]:
            for name, regime in known.items():
                assert name not in entry or entry["regime"] == regime, (path, entry)
                found |= {name} & entry.keys()
    assert found == known.keys()


@given(requests())
def test_the_shape_of_a_request_is_possible_and_holds_the_row(request: Request):
    shape = select(request, DEFAULT)
    assert possible(shape, request)
    plan = shape.plan(request.cols, request.size, request.edges)
    assert plan.file.is_file()
    assert 32 <= plan.threads <= 1024
    vectors = vectors_from_line(request.cols, request.size, request.edges)
    match shape.regime:
        case "warp":
            assert shape.sizes[0] * plan.held >= request.cols * request.size // VECTOR_BYTES
        case "tile":
            assert shape.sizes[0] * plan.held >= request.cols
        case "block":
            assert shape.sizes[0] * plan.held >= vectors
        case "cluster":
            # Shares are whole lines, and each block has to hold one.
            share = -(-vectors // (shape.sizes[1] * LINE)) * LINE
            assert shape.sizes[0] * plan.held >= share
            assert shape.sizes[1] * share >= vectors
        case "staged":
            share = staged_vectors(shape, request.cols, request.size, request.edges)
            assert shape.sizes[1] * share >= vectors
            # A thread's exponentials, an edge's among them, are 512 at most (exact.cuh).
            assert share * VECTOR_BYTES // request.size <= 511 * shape.sizes[0]
            shared = staged_bytes(shape, request.cols, request.size, request.edges)
            assert (share + 2) * VECTOR_BYTES == shared <= SHARED_OF_A_BLOCK - 2048
        case "chunks":
            dealt = deal(shape, request.cols, request.size, request.edges, request.lines)
            # A chunk takes a vector more from memory where results lie otherwise.
            assert dealt.vectors + (request.edges == APART) <= shape.sizes[0]
            assert dealt.vectors % LINE == 0
            needed = vectors_from_line(request.cols, request.size, not request.lines)
            assert dealt.chunks * dealt.vectors >= needed > (dealt.chunks - 1) * dealt.vectors
            assert dealt.tickets * shape.sizes[4] >= dealt.chunks
    # What lies at the edges goes one element to a thread of the row's.
    if shape.regime in ("warp", "block", "cluster", "staged", "grid", "stream"):
        most = {NONE: 0, ALIKE: 1, APART: 2}[request.edges] * VECTOR_BYTES // request.size - 1
        assert shape.sizes[0] >= 2 * most


@given(requests())
def test_sums_without_an_order_leave_a_multiprocessor_more_than_one_block(request: Request):
    cols = min(request.cols, INVARIANT_COLS)
    request = replace(request, cols=cols, invariant=True)
    usual, shape = select(replace(request, invariant=False), DEFAULT), select(request, DEFAULT)
    assert shape.invariant
    assert possible(shape, request)
    plan = shape.plan(request.cols, request.size, request.edges)
    assert shape.regime == usual.regime
    if shape.regime in ("block", "cluster") and shape.sizes != usual.sizes:
        assert 1024 <= plan.threads * shape.sizes[-1] <= 2048
        assert plan.threads < 1024
        assert plan.held <= HELD_IN_64_REGISTERS[request.size, shape.raw]
        parts = shape.sizes[1] if shape.regime == "cluster" else 1
        vectors = vectors_from_line(request.cols, request.size, request.edges)
        assert plan.threads * parts * plan.held >= vectors


def test_a_block_of_1024_that_sums_without_an_order_gives_way_to_two(
    monkeypatch: pytest.MonkeyPatch,
):
    known = {("bfloat16", NONE, MANY): (Entry(16_384, Shape("block", (1024, 1)), 1.0),)}
    monkeypatch.setattr(selecting, "table", lambda gpu, operator: known)
    request = Request(
        "bfloat16", rows=10**6, cols=16_384, edges=NONE, contiguous=True, lines=True, arch=90,
        multiprocessors=132,
    )  # fmt: skip
    assert select(request, DEFAULT).sizes == (1024, 1)
    assert select(replace(request, invariant=True), DEFAULT).sizes == (512, 2)


def test_what_was_not_measured_goes_by_what_is_nearest():
    request = Request(
        "float32", rows=10**6, cols=64, edges=APART, contiguous=False, lines=False, arch=90,
        multiprocessors=132,
    )  # fmt: skip
    first = table(DEFAULT)["float32", APART, MANY][0].cols
    assert first // 2 > 64
    # Narrow rows whose results lie otherwise go as those that lie alike, and so do few rows.
    for some in (replace(request, cols=first // 2), replace(request, rows=16, cols=200_000)):
        shape = select(some, DEFAULT)
        assert shape == select(replace(some, edges=ALIKE), DEFAULT)
        assert shape.regime in ("warp", "grid")
    assert select(replace(request, rows=16, cols=200_000), DEFAULT).regime == "grid"
    measured = table(DEFAULT)["float32", APART, MANY][0].shape
    assert select(replace(request, cols=first // 2 + 1), DEFAULT) == measured
    # But few that are dealt out go as many do, wherever these are dealt out too.
    few = replace(request, rows=128, cols=2**20)
    assert select(few, DEFAULT) == select(replace(few, rows=10**6), DEFAULT)
    assert select(few, DEFAULT) != select(replace(few, edges=ALIKE), DEFAULT)
    clusters = replace(request, dtype="bfloat16", rows=128, cols=262_144)
    assert select(clusters, DEFAULT) == select(replace(clusters, edges=ALIKE), DEFAULT)
    assert select(replace(clusters, rows=10**6), DEFAULT).regime != "chunks"
    # Batches of them go as many rows do, and not as batches that lie alike.
    wide = replace(request, rows=2048, cols=50_256)
    assert select(wide, DEFAULT) == select(replace(wide, rows=10**6), DEFAULT)
    assert select(wide, DEFAULT) != select(replace(wide, edges=ALIKE), DEFAULT)
    # Rows without edges never go as rows with some.
    whole = replace(request, rows=32, cols=53_840, edges=NONE, multiprocessors=114)
    shapes = {e.shape for key, some in table(DEFAULT).items() if key[1] == NONE for e in some}
    assert select(whole, DEFAULT) in shapes
    # A batch: narrow rows of it as many rows, and so wider ones than were measured.
    batch = replace(request, rows=300, edges=NONE)
    widths = [e.cols for e in table(DEFAULT)["float32", NONE, 512]]
    for cols in (widths[0] // 4, 4 * widths[-1]):
        some = replace(batch, cols=cols)
        # Where many blocks are late, a few are early.
        as_many = replace(select(replace(some, rows=10**6), DEFAULT), early=True)
        assert select(some, DEFAULT) == as_many
    some = replace(batch, cols=widths[0])
    assert select(some, DEFAULT) == table(DEFAULT)["float32", NONE, 512][0].shape


def test_a_row_beyond_all_rings_is_streamed():
    wide = Request(
        "float32", rows=1, cols=2**26, edges=False, contiguous=True, lines=True, arch=90,
        multiprocessors=132,
    )  # fmt: skip
    assert select(wide, DEFAULT) == STREAM
    # Rings of 132 multiprocessors hold 4 million columns, those of 13 do not.
    narrow = replace(wide, cols=2**22, rows=64)
    assert select(narrow, DEFAULT).regime == "chunks"
    assert select(replace(narrow, multiprocessors=13), DEFAULT) == STREAM


@pytest.mark.parametrize(
    ("dtype", "rows", "cols", "parts"),
    [("float32", 1, 131_072, 108), ("float32", 4, 524_289, 27), ("bfloat16", 8, 2**20, 13)],
)
def test_before_hopper_few_wide_rows_go_to_all_multiprocessors(
    dtype: str, rows: int, cols: int, parts: int
):
    request = Request(
        dtype, rows, cols, edges=cols % 2, contiguous=True, lines=False, arch=80,
        multiprocessors=108,
    )  # fmt: skip
    shape = select(request, "nvidia-a100")
    assert (shape.regime, shape.sizes) == ("grid", (512, parts, 1))
    plan = shape.plan(cols, request.size, request.edges)
    name = plan.expression(C_TYPES[dtype])
    _, symbols, report = program(plan.file, "sm_80", [name])
    assert ptxas_facts(report, symbols[name])["spill_bytes"] == 0
    # As many rows as fill the GPU, or of more columns than all registers hold, are streamed.
    assert select(replace(request, rows=100), "nvidia-a100") == STREAM
    assert select(replace(request, cols=2**26), "nvidia-a100") == STREAM


def test_a_few_blocks_come_early_though_many_rows_go_late(monkeypatch: pytest.MonkeyPatch):
    late = Shape("warp", (16, 128), early=False)
    known = {("float32", NONE, MANY): (Entry(64, late, 1.0),)}
    monkeypatch.setattr(selecting, "table", lambda gpu, operator: known)
    request = Request(
        "float32", rows=8 * EARLY_BLOCKS, cols=64, edges=NONE, contiguous=True, lines=True, arch=90,
        multiprocessors=132,
    )  # fmt: skip
    assert select(request, DEFAULT) == late
    assert select(replace(request, rows=request.rows - 1), DEFAULT) == replace(late, early=True)


def test_rows_apart_are_no_tile():
    request = Request(
        "bfloat16", rows=10**6, cols=63, edges=True, contiguous=True, lines=False, arch=90,
        multiprocessors=132,
    )  # fmt: skip
    assert select(request, DEFAULT).regime == "tile"
    assert select(replace(request, contiguous=False), DEFAULT).regime == "warp"
    assert select(replace(request, arch=80), DEFAULT).regime == "warp"


@pytest.mark.parametrize("cols", [1, 31, 33, 63, 127, 257, 511, 2049, 4097])
@pytest.mark.parametrize("size", [2, 4])
def test_tiles_hold_their_rows_and_a_warps_rows_share_few_banks(cols: int, size: int):
    for shape in (Shape("tile", (lanes, 64)) for lanes in (8, 16, 32)):
        rows, apart, together = tile_rows(shape, cols, size), tile_apart(shape, cols, size), 32
        together //= shape.sizes[0]
        assert rows.bit_count() == apart.bit_count() == 1
        assert rows == 1 or rows * cols * size <= TILE_BYTES * 64
        # Each row of the tile is one warp's, once.
        taken = [
            turn // apart * apart * together + group * apart + turn % apart
            for turn in range(max(1, rows // together))
            for group in range(together)
        ]
        assert sorted(taken) == list(range(max(rows, together)))
    # Neighbours' first elements lie in one bank, rows 8 apart in others.
    assert tile_apart(Shape("tile", (8, 64)), 65, 2) == 8


def test_a_width_has_the_shape_of_the_next_that_was_measured():
    entries = table(DEFAULT)["float32", NONE, MANY]
    cols = [e.cols for e in entries]
    assert cols == sorted(set(cols))
    wider = next(e for e in entries if e.cols > 3000)
    request = Request(
        "float32", rows=10**6, cols=3000, edges=False, contiguous=True, lines=False, arch=90,
        multiprocessors=132,
    )  # fmt: skip
    assert select(request, DEFAULT) == wider.shape
    assert table("no-such-gpu") == table(DEFAULT)


@given(requests())
def test_an_invariant_request_has_a_shape_that_fits_a_block(request: Request):
    shape = select(replace(request, invariant=True), DEFAULT)
    assert shape.invariant
    assert possible(shape, request)
    assert shape.plan(request.cols, request.size, request.edges).threads <= 1024


def test_an_invariant_row_beyond_the_sums_is_refused():
    wide = Request(
        "float32", rows=1, cols=INVARIANT_COLS + 1, edges=0, contiguous=True, lines=False, arch=90,
        multiprocessors=132, invariant=True,
    )  # fmt: skip
    with pytest.raises(ValueError, match="at most 8388608 columns"):
        select(wide, DEFAULT)


def test_the_shipped_table_has_every_dtype_with_edges_and_without():
    assert {(e["dtype"], e["edges"]) for e in ENTRIES} == set(product(DTYPES, EDGES))
    # Few rows of odd bytes are copied slowly.
    assert all(0 < e["fraction_of_copy"] < (1.5 if e["rows"] else 1.1) for e in ENTRIES)
    assert {e["rows"] for e in ENTRIES} >= {None, 1, 8, 64}
    assert {e["regime"] for e in ENTRIES} <= set(REGIMES)
    for e in ENTRIES:
        Shape(e["regime"], tuple(e["sizes"]), e["raw"]).plan(e["cols"], 4, EDGES.index(e["edges"]))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_plans_compiled_ahead_differ_and_suit_the_architecture(dtype: str, arch: str):
    plans = ahead(dtype, arch)
    assert len(set(plans)) == len(plans) > len(AHEAD) // 2
    backward = {p.shape.regime for p in plans if isinstance(p, BackwardPlan)}
    assert ("stream" in backward) == (arch == "sm_80")
    assert ({"cluster", "grid"} <= backward) == (arch != "sm_80")
    regimes = {p.shape.regime for p in plans if not isinstance(p, BackwardPlan)}
    assert ("chunks" in regimes) == (arch != "sm_80")
    assert ("stream" in regimes) == (arch == "sm_80")


@pytest.mark.parametrize(("name", "told"), [("NVIDIA H200", 0), ("NVIDIA A100-SXM4-40GB", 1)])
def test_a_gpu_without_a_table_is_told_how_to_measure_one(
    name: str, told: int, monkeypatch: pytest.MonkeyPatch
):
    facts = SimpleNamespace(name=name, major=8, minor=0, multi_processor_count=108)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda index: facts)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        here = frontier.gpu.__wrapped__(0)
    assert (here.arch, here.multiprocessors) == (80, 108)
    assert [name in str(each.message) for each in seen] == [True] * told
    assert all("snakemake --cores 1 tune measures one" in str(each.message) for each in seen)
