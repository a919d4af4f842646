"""What the frontier promises in any company: equal bits, any layout, large tensors, no deadlock."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import torch
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, ObjectCode, Stream, launch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from experiments.check import check, planted
from experiments.launches import Case, Gpu, chosen, compile_all, present
from experiments.layout import LAYOUTS, Layout
from experiments.placed import placed
from experiments.sanitized import cases
from experiments.sanitized import run as run_case
from kernels.cuda_compiler import program
from kernels.frontier.frontier import run
from kernels.frontier.plans import REGIMES, Shape
from kernels.frontier.select import DEFAULT, MANY, table
from kernels.launch import architecture, bind
from kernels.registry import DTYPES

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("hopper"),
    pytest.mark.xdist_group("frontier_proof"),
]

# One for each size of a chunk, and one that sums without an order.
_CHUNKS = {
    entry.shape.sizes[0]: entry.shape
    for entries in table(DEFAULT).values()
    for entry in entries
    if entry.shape.regime == "chunks"
}
_H200 = Gpu(DEFAULT, 90, 132)
_UNORDERED = chosen(LAYOUTS[0], "float32", MANY, 2**19, _H200, invariant=True)
DEALT = [*_CHUNKS.values(), _UNORDERED]


class Wide(NamedTuple):
    """Rows that blocks all over the GPU share, by a kernel that is launched cooperatively."""

    shape: Shape
    dtype: str
    rows: int
    cols: int

    def tensor(self, seed: int) -> Tensor:
        return planted(self.rows, self.cols, getattr(torch, self.dtype), "cuda", seed)


# Rows in the registers of all multiprocessors: as many as these hold.
GRIDS = [
    Wide(chosen(LAYOUTS[0], *rows, _H200, invariant=invariant), *rows)
    for rows, invariant in (
        (("float32", 4, 2**20), False), (("bfloat16", 8, 2**20), False),
        (("float16", 2, 524_289), False), (("float32", 1, 201_088), False),
        (("float32", 2, 2**20), True),
    )
]  # fmt: skip
REPEATED = [*(Wide(shape, "bfloat16", 24, 131_072) for shape in DEALT), *GRIDS]
GRID_WIDE = [*(Wide(shape, "float32", 40, 300_001) for shape in DEALT), *GRIDS]
LAUNCHES = 10_000
CASES, MOST_COLS, MOST_ELEMENTS = 1000, 300_000, 2**21
# As many widths as a minute's compiling allows, on all cores.
_DRAW = Random(1)
WIDTHS = sorted({int(MOST_COLS ** _DRAW.random()) for _ in range(150)} | {1, 50_257, 131_072})
PATIENCE_S = 60.0
NEIGHBOUR_CYCLES = 4_000_000_000  # two seconds


def test_both_grid_wide_regimes_are_proven():
    assert {wide.shape.regime for wide in REPEATED} == {"chunks", "grid"}
    assert {wide.shape.regime for wide in GRIDS} == {"grid"}
    assert {wide.shape.invariant for wide in GRIDS} == {False, True}


@pytest.mark.parametrize("wide", REPEATED, ids=str)
def test_ten_thousand_launches_give_the_same_bits(wide: Wide):
    x, shape = wide.tensor(seed=3), wide.shape
    first = run(x, torch.empty_like(x), shape)
    assert check(x, first).ok
    y, differs = torch.empty_like(x), torch.zeros((), dtype=torch.bool, device="cuda")
    for _ in range(LAUNCHES):
        run(x, y.fill_(torch.nan), shape)
        differs |= (y.view(torch.int16) != first.view(torch.int16)).any()
    assert not bool(differs)


@pytest.mark.parametrize("regime", REGIMES)
def test_a_regime_is_right_astride_its_thresholds_and_touches_nothing_else(regime: str):
    some = list(cases(regime, present()))
    compile_all(some)
    wrong = {str(case): reason for n, case in enumerate(some) if (reason := run_case(case, n))}
    assert wrong == {}


def possible(cols: int, dtype: str) -> Iterator[Case]:
    """Whatever may be chosen for rows of ``cols``."""
    gpu = present()
    for layout in (LAYOUTS[0], Layout("off", 1, 1), Layout("apart", 1, 1, 1, 1)):
        for rows in (*range(1, 140), MANY):
            yield Case(chosen(layout, dtype, rows, cols, gpu), dtype, rows, cols, layout)


@pytest.fixture(scope="module")
def compiled_widths() -> None:
    compile_all(case for cols in WIDTHS for dtype in DTYPES for case in possible(cols, dtype))


@st.composite
def tensors(draw: st.DrawFn) -> tuple[Layout, int, int, str, int]:
    cols = draw(st.sampled_from(WIDTHS))
    rows = draw(st.integers(1, max(1, min(400, MOST_ELEMENTS // cols))))
    offset, gap = st.integers(0, 9), st.sampled_from((0, 0, 1, 3, 8, 13))
    layout = Layout("drawn", draw(offset), draw(offset), draw(gap), draw(gap), draw(st.booleans()))
    return layout, rows, cols, draw(st.sampled_from(DTYPES)), draw(st.integers(0, 2**31))


@pytest.mark.usefixtures("compiled_widths")
@settings(
    max_examples=CASES, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
@given(tensors())
def test_random_rows_columns_strides_and_offsets_agree_with_float64(drawn):
    layout, rows, cols, dtype, seed = drawn
    made = placed(layout, rows, cols, getattr(torch, dtype), "cuda", seed)
    before = made.x.clone()
    verdict = check(before, bind("frontier")(made.x, made.out))
    assert verdict.ok, verdict.reason
    assert layout.in_place or torch.equal(before, made.x)
    assert made.surroundings_untouched()


def test_nothing_is_done_for_no_rows():
    empty = torch.empty(0, 5, device="cuda")
    assert bind("frontier")(empty, torch.empty_like(empty)).shape == (0, 5)


@pytest.mark.parametrize(
    ("rows", "cols"), [(2**25 + 77, 65), (2**20 + 3, 2049), (20_011, 131_072), (600, 2**22)]
)
def test_tensors_of_more_than_2_to_31_elements(rows: int, cols: int):
    assert rows * cols > 2**31
    if torch.cuda.mem_get_info()[0] < 20 * rows * cols:
        pytest.skip("needs 50 GiB of free device memory")
    x = planted(rows, cols, torch.bfloat16, "cuda", seed=1)
    y = bind("frontier")(x, torch.full_like(x, torch.nan))
    wraps = 2**31 // cols
    some = torch.tensor([0, 1, wraps - 1, wraps, wraps + 1, rows - 2, rows - 1], device="cuda")
    verdict = check(x[some], y[some])
    assert verdict.ok, verdict.reason
    assert bool(y.isfinite().all())
    del x, y
    torch.cuda.empty_cache()


class Neighbour:
    """A kernel that holds the shared memory of so many multiprocessors until it is stopped."""

    def __init__(self, blocks: int) -> None:
        self.stream = torch.cuda.Stream()
        self.stop = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self.started = torch.zeros(blocks, dtype=torch.int32, pin_memory=True)
        file = Path(__file__).with_name("neighbour.cu")
        cubin, symbols, _ = program(file, architecture(), ["neighbour"])
        Device(0).set_current()
        self.kernel = ObjectCode.from_cubin(cubin).get_kernel(symbols["neighbour"])
        most = torch.cuda.get_device_properties(0).shared_memory_per_block_optin
        name = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        (error,) = driver.cuKernelSetAttribute(name, most, int(self.kernel.handle), 0)
        assert error == driver.CUresult.CUDA_SUCCESS
        self.config = LaunchConfig(grid=blocks, block=32, shmem_size=most)
        torch.cuda.synchronize()

    def start(self) -> None:
        stream: Any = Stream.from_handle(self.stream.cuda_stream)
        arguments = (self.stop.data_ptr(), self.started.data_ptr(), NEIGHBOUR_CYCLES)
        launch(stream, self.config, self.kernel, *arguments)

    def wait_until_started(self) -> None:
        wait_for(lambda: bool(self.started.all()))

    def end(self) -> None:
        self.stop.fill_(1)


def wait_for(done: Callable[[], bool]) -> None:
    """End the tests where a GPU that hangs would never end them."""
    end = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > end:
            pytest.exit(f"the GPU was not done after {PATIENCE_S:g} s: a deadlock", returncode=1)
        time.sleep(0.001)


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("wide", GRID_WIDE, ids=str)
def test_a_launch_beside_a_neighbour_that_came_first(wide: Wide, share: float):
    x, shape = wide.tensor(seed=5), wide.shape
    expected = run(x, torch.empty_like(x), shape)
    assert check(x, expected).ok
    y, mine = torch.full_like(x, torch.nan), torch.cuda.Stream()
    neighbour = Neighbour(int(share * present().multiprocessors))
    neighbour.start()
    neighbour.wait_until_started()
    with torch.cuda.stream(mine):
        run(x, y, shape)
        done = torch.cuda.Event()
        done.record()
    neighbour.end()
    wait_for(done.query)
    torch.cuda.synchronize()
    assert torch.equal(y, expected)


@pytest.mark.parametrize("wide", GRID_WIDE, ids=str)
def test_launches_between_which_a_neighbour_comes(wide: Wide):
    x, shape = wide.tensor(seed=5), wide.shape
    expected = run(x, torch.empty_like(x), shape)
    ys, mine = [torch.full_like(x, torch.nan) for _ in range(20)], torch.cuda.Stream()
    neighbour = Neighbour(present().multiprocessors)
    with torch.cuda.stream(mine):
        for number, y in enumerate(ys):
            run(x, y, shape)
            if number == 5:
                neighbour.start()
        done = torch.cuda.Event()
        done.record()
    neighbour.end()
    wait_for(done.query)
    torch.cuda.synchronize()
    assert all(torch.equal(y, expected) for y in ys)


def test_grid_wide_launches_on_several_streams_at_once():
    narrow = planted(64, 131_072, torch.bfloat16, "cuda", seed=6)
    rows = GRID_WIDE[0].tensor(seed=5)
    work = [(x, shape) for x in (rows, narrow) for shape in (DEALT[0], DEALT[-1])]
    work += [(wide.tensor(seed=7), wide.shape) for wide in (*GRIDS[:2], GRIDS[-1])]
    expected = [run(x, torch.empty_like(x), shape) for x, shape in work]
    ys = [torch.full_like(y, torch.nan) for y in expected]
    streams = [torch.cuda.Stream() for _ in work]
    torch.cuda.synchronize()
    for _ in range(200):
        for stream, (x, shape), y in zip(streams, work, ys, strict=True):
            with torch.cuda.stream(stream):
                run(x, y, shape)
    events = [stream.record_event() for stream in streams]
    wait_for(lambda: all(event.query() for event in events))
    assert all(torch.equal(y, e) for y, e in zip(ys, expected, strict=True))
