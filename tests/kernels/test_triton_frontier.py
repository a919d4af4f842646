"""Triton's kernels for all widths: rows anywhere in memory, parts that wait, and who is chosen."""

import json
import multiprocessing
from collections.abc import Iterator
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from experiments.check import planted
from experiments.tune_triton import WIDTHS, candidates
from kernels.registry import DTYPES, ELEMENT_BYTES
from kernels.triton import triton_grid, triton_held
from kernels.triton._rows import LINE, VECTOR_BYTES, lie, registers, vectors_of
from kernels.triton._select import DEFAULT, ONLINE, TABLES, Request, Shape, possible, select
from kernels.triton.triton_frontier import run
from kernels.triton.triton_grid import HEAD, Dealt
from kernels.triton.triton_held import Held
from tests.commands import module
from tests.kernels import triton_code
from tests.reference import assert_softmax

interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="tests/gpu has the same")

HELD = [
    Held(4, 32, 4), Held(2, 16, 1), Held(8, 8, 2), Held(32, 2, 1), Held(128, 1, 4),
    Held(64, 1, 2, raw=True), Held(32, 1, 1, twice=2), Held(16, 2, 1, twice=7, raw=True),
]  # fmt: skip
# Rows and columns, elements before the input's and the output's first, elements between rows.
PLACES = [
    (5, 781, 0, 0, 0), (3, 256, 0, 0, 8), (4, 63, 1, 1, 0), (6, 2, 3, 3, 4), (4, 300, 1, 2, 5),
]  # fmt: skip


def placed(
    place: tuple[int, ...], dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Input, output and the memory around the output, full of 7."""
    rows, cols, before, out_before, gap = place
    memory = torch.full((rows * (cols + gap) + 32,), 7.0, dtype=dtype)
    around = memory.clone()
    x = around.as_strided((rows, cols), (cols + gap, 1), 8 + before)
    x.copy_(planted(rows, cols, dtype, "cpu", seed=cols))
    return x, memory.as_strided((rows, cols), (cols + gap, 1), 8 + out_before), memory


@interpreted
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("held", HELD, ids=str)
def test_rows_anywhere_are_right_and_nothing_else_is_written(held: Held, dtype: str):
    size = ELEMENT_BYTES[dtype]
    if held.raw and size == 4:
        return  # there is nothing to unpack
    for place in PLACES:
        x, out, memory = placed(place, getattr(torch, dtype))
        request = Request(dtype, x.shape[1], lie(x, out).edges, 0, 0)
        if not possible(Shape("held", held[:5], held.raw), request):
            assert held.twice or held.vectors(x.shape[1], size, request.edges) > held.room(size)
            continue
        triton_held.run(x, out, held)
        assert_softmax(x, out)
        out.fill_(7.0)
        assert bool((memory == 7.0).all()), place


def _share(*arguments: object) -> None:
    triton_grid.launch(*arguments, grid=1)  # pyright: ignore[reportArgumentType, reportCallIssue]


def dealt_by(processes: int, x: torch.Tensor, out: torch.Tensor, dealt: Dealt) -> torch.Tensor:
    """Deal ``x`` out to as many interpreters, each one program; the posts that they leave.

    A program of the interpreter runs to its end before the next one starts, and would wait for
    ever; those of other processes run beside it.
    """
    parts, share = dealt.deal(x.shape[1], x.element_size(), lie(x, out).edges)
    posts = torch.zeros(HEAD + 2 * x.shape[0] * parts, dtype=torch.int64).share_memory_()
    for launches in (1, 2):
        out.fill_(torch.nan)
        fork = multiprocessing.get_context("fork")
        arguments = (x, out, posts, dealt, parts, share, processes)
        programs = [fork.Process(target=_share, args=arguments) for _ in range(processes)]
        for program in programs:
            program.start()
        for program in programs:
            program.join(20)
        stuck = [program for program in programs if program.is_alive()]
        for program in stuck:
            program.kill()
        assert not stuck
        assert [program.exitcode for program in programs] == [0] * processes
        assert posts[:HEAD].tolist() == [launches, 0, 0, 0]
        assert_softmax(x, out)
    return posts[HEAD:].view(-1, 2)


@interpreted
@pytest.mark.parametrize(
    ("dtype", "dealt", "place"),
    [
        ("float32", Dealt(2, 1, 1), (5, 781, 0, 0, 0)),
        ("bfloat16", Dealt(2, 1, 1, raw=True), (4, 1001, 1, 1, 0)),
        ("float16", Dealt(1, 2, 1), (4, 1500, 1, 2, 3)),
    ],
)
def test_parts_of_a_row_wait_for_one_another(dtype: str, dealt: Dealt, place: tuple[int, ...]):
    x, out, _ = (t.share_memory_() for t in placed(place, getattr(torch, dtype)))
    x[2, :600] = -torch.inf  # a part of nothing else
    x[3, 5] = torch.nan
    x[0] += 100.0
    parts, _ = dealt.deal(x.shape[1], x.element_size(), edges=True)
    assert parts > 1
    posts = dealt_by(parts, x, out, dealt)
    assert (posts >> 32 == 2).all()  # the launch's number, beside every float


@interpreted
def test_a_row_of_one_part_waits_for_nobody():
    x, out, _ = (t.share_memory_() for t in placed(PLACES[0], torch.float32))
    dealt_by(1, x, out, Dealt(8, 1, 1))


def test_a_row_of_more_parts_than_programs_is_refused():
    x = torch.zeros(1, 100_000)
    with pytest.raises(ValueError, match="100000 columns has 7 parts: 0 programs run"):
        triton_grid.run(x, x, Dealt(8, 16, 2))


@cache
def code() -> dict[str, dict[str, int]]:
    done = module("tests.kernels.triton_code")
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout.splitlines()[-1])


def forms(kernel: str) -> Iterator[tuple[str, dict[str, int], str, bool]]:
    """Dtype, accesses, the name of an element's type, and whether the output lies alike."""
    for name, accesses in code().items():
        found, dtype, _, alike = name.split()
        if found == kernel:
            yield dtype, accesses, f"b{8 * ELEMENT_BYTES[dtype]}", alike == "1"


def test_odd_rows_move_as_vectors_but_for_their_edges():
    for dtype, accesses, element, alike in forms("held"):
        number = Held(512, 1, 16).vectors(triton_code.COLS, ELEMENT_BYTES[dtype], edges=True)
        assert accesses["ld.global.v4.b32"] == number
        assert accesses[f"ld.global.{element}"] == 1
        width = VECTOR_BYTES // ELEMENT_BYTES[dtype]
        assert accesses.get("st.global.v4.b32", 0) == (number if alike else 0)
        assert accesses[f"st.global.{element}"] == 1 + (0 if alike else number * width)
    for _, accesses, element, _ in forms("grid"):
        assert accesses["ld.global.v4.b32"] == accesses["st.global.v4.b32"] == 4
        assert accesses[f"ld.global.{element}"] == accesses[f"st.global.{element}"] == 1


def test_what_is_kept_as_it_came_is_exponentiated_twice():
    for name, accesses in code().items():
        kernel, dtype, raw, _ = name.split()
        if kernel == "held":
            size = ELEMENT_BYTES[dtype]
            number = Held(512, 1, 16).vectors(triton_code.COLS, size, edges=True)
            # Each element but that of the edges; the compiler must not find that it knows some.
            assert accesses["ex2"] == number * VECTOR_BYTES // size * (1 + int(raw)) + 1


def test_what_is_not_held_is_loaded_twice_and_stored_once():
    for dtype, accesses, _, _ in forms("twice"):
        number = Held(512, 1, 16).vectors(triton_code.COLS, ELEMENT_BYTES[dtype], edges=True)
        first, again = (
            [count for name, count in accesses.items() if f"L1::{hint}" in name]
            for hint in ("evict_last", "evict_first")
        )
        assert (first, again, accesses["ld.global.v4.b32"]) == ([3], [3], number - 3), dtype
        assert accesses["st.global.v4.b32"] == number


@interpreted
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_rounded_offset_serves_a_row_of_any_size(dtype: str):
    """All exponentials take it alike: masks, shifts and the largest numbers leave the sum at 1."""
    kind = getattr(torch, dtype)
    far = torch.finfo(kind).min
    x = torch.randn(9, 500, generator=torch.Generator().manual_seed(3)).to(kind)
    x[1] += 1e4
    x[2] -= 3e4
    x[3] = far
    x[4, 5:] = far
    x[5, 9:] = -torch.inf
    x[6, 3] = torch.finfo(kind).max
    x[7, :] = far
    x[7, 1] = -torch.inf
    x[8, :250] = -torch.inf
    for held in (Held(64, 1, 2), Held(16, 2, 1, twice=1), Held(16, 2, 1, raw=True)):
        if kind == torch.float32 and held.raw:
            continue
        assert_softmax(x, triton_held.run(x, torch.full_like(x, torch.nan), held))


def test_rows_that_share_a_warp_move_as_vectors_too():
    for dtype, accesses, _, _ in forms("several"):
        held = Held(8, 32, 4)
        number = held.vectors(63, ELEMENT_BYTES[dtype], edges=True) * 2  # two rows a lane
        assert accesses["ld.global.v4.b32"] == accesses["st.global.v4.b32"] == number


def test_who_waits_looks_past_the_cache_and_posts_without_a_fence():
    for _, accesses, _, _ in forms("grid"):
        # The launch's number, and both halves of a post, before the loop and in it.
        assert accesses["ld.volatile.global.b64"] == 5
        assert {n for n in accesses if "exch" in n} == {"atom.global.gpu.relaxed.exch.b64"}


@st.composite
def requests(draw: st.DrawFn) -> Request:
    dtype = draw(st.sampled_from(DTYPES))
    cols = draw(st.one_of(st.integers(1, 5000), st.integers(1, 2**24)))
    edges = cols * ELEMENT_BYTES[dtype] % VECTOR_BYTES != 0 or draw(st.booleans())
    gpu = draw(st.sampled_from([(0, 0), (108, 2048), (132, 2048), (82, 1536)]))
    return Request(dtype, cols, edges, *gpu)


@given(requests())
def test_the_shape_of_a_request_is_possible_and_holds_the_row(request: Request):
    shape = select(request, DEFAULT)
    assert possible(shape, request)
    cols, size, edges = request.cols, request.size, request.edges
    match shape.regime:
        case "held":
            held = shape.held
            assert held.lanes * held.rows >= 32 * held.warps
            number = vectors_of(cols, size, edges, held.rows == 1)
            assert held.lanes * held.vectors(cols, size, edges) >= number
            assert held.twice == 0 or held.twice + 2 <= held.vectors(cols, size, edges)
        case "grid":
            parts, share = shape.dealt.deal(cols, size, edges)
            assert share % LINE == 0
            assert share <= 32 * shape.dealt.warps * shape.dealt.vectors
            assert parts * share >= vectors_of(cols, size, edges) > (parts - 1) * share
            assert parts <= request.multiprocessors * shape.dealt.programs


def test_the_interpreter_is_given_nothing_that_waits():
    for dtype in DTYPES:
        regimes = {
            select(Request(dtype, c, c % 8 != 0, 0, 0), DEFAULT).regime
            for c in (1, 4097, 2**17, 2**20)
        }
        assert regimes == {"held", "online"}


def test_a_row_beyond_all_programs_is_streamed():
    assert select(Request("float32", 2**26, False, 132, 2048), DEFAULT) == ONLINE


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("edges", [False, True])
def test_every_width_has_candidates_that_hold_it(dtype: str, edges: bool):
    for cols in (c + edges for c in WIDTHS):
        request = Request(dtype, cols, edges, 132, 2048)
        shapes = [s for s in candidates(cols, request.size, edges) if possible(s, request)]
        assert shapes, cols
        for shape in shapes:
            if shape.regime == "held":
                held = shape.held
                assert held.lanes * held.rows >= 32 * held.warps
                kept = held.vectors(cols, request.size, edges) - held.twice
                assert kept * 4 < registers(held.warps, held.programs)


def test_the_shipped_table_chose_among_the_candidates():
    path = TABLES / f"{DEFAULT}.json"
    entries = json.loads(path.read_text())["entries"] if path.exists() else []
    for entry in entries:
        shape = Shape(entry["regime"], tuple(entry["sizes"]), entry["raw"])
        size = ELEMENT_BYTES[entry["dtype"]]
        assert shape in set(candidates(entry["cols"], size, entry["edges"])), entry
        assert possible(shape, Request(entry["dtype"], entry["cols"], entry["edges"], 132, 2048))
        assert 0 < entry["fraction_of_copy"] < 1.1


@interpreted
def test_each_shape_runs_its_kernel():
    x = planted(2, 500, torch.float32, "cpu", seed=1)
    for shape in (Shape("held", (32, 4, 4, 1)), ONLINE):
        assert_softmax(x, run(x, torch.full_like(x, torch.nan), shape))
    empty = torch.empty(0, 5)
    assert select(Request("float32", 5, True, 0, 0), "").regime == "held"
    assert triton_held.softmax(empty, empty).shape == (0, 5)
