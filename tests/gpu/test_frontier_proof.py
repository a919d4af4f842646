"""What the frontier promises in any company: equal bits, any layout, large tensors, no deadlock."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from experiments.check import check, planted
from experiments.launches import Case, Gpu, chosen, compile_all, present, widest_dealt
from experiments.layout import BY_NAME, LAYOUTS, Layout
from experiments.sanitized import cases
from experiments.sanitized import run as run_case
from kernels.frontier import frontier
from kernels.frontier.frontier import run
from kernels.frontier.plans import REGIMES, Shape
from kernels.frontier.select import DEFAULT, MANY, select, table
from kernels.launch import bind
from kernels.registry import ROOT
from tests.gpu.drawn import GUARD, Drawn, drawn, fault
from tests.gpu.memory import needs
from tests.gpu.neighbours import PATIENCE_S, Neighbour, beside_a_neighbour, wait_for
from tests.gpu.together import Wide

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


# Rows in the registers of all multiprocessors: as many as these hold.
GRIDS = [
    Wide(chosen(LAYOUTS[0], *rows, _H200, invariant=invariant), *rows)
    for rows, invariant in (
        (("float32", 4, 2**20), False), (("bfloat16", 8, 2**20), False),
        (("float16", 2, 524_289), False), (("float32", 1, 201_088), False),
        (("float32", 2, 2**20), True),
    )
]  # fmt: skip
# As many dealt rows as fill every ring more than twice: 75 MB.
REPEATED = [*(Wide(shape, "bfloat16", 24, 3 * 2**19) for shape in DEALT), *GRIDS]
GRID_WIDE = [*(Wide(shape, "float32", 48, 300_001) for shape in DEALT), *GRIDS]
LAUNCHES = 10_000
# Dtype, rows, columns, and elements between two rows of the input: more than 2^31 in all.
LARGE = (
    ("bfloat16", 2**25 + 77, 64, 0), ("bfloat16", 2**25 + 77, 65, 0),
    ("bfloat16", 2**21 + 5, 1024, 8), ("bfloat16", 2**20 + 3, 2049, 0),
    ("bfloat16", 20_011, 131_072, 0), ("float32", 20_011, 131_072, 0),
    ("bfloat16", 4099, 2**19, 0), ("bfloat16", 600, 2**22, 0),
)  # fmt: skip
# Two rows, as far apart as 32 bits do not count, by each regime that takes rows apart.
FAR = {
    Shape("warp", (32, 64)): 1000,
    Shape("block", (256, 1)): 6001,
    Shape("cluster", (256, 4, 1)): 9000,
    Shape("staged", (256, 4, 2)): 20_001,
    Shape("grid", (512, 5, 1)): 20_001,
    Shape("chunks", (1024, 13, 8, 16, 2, 1, 4)): 300_001,
    Shape("stream", (1024,)): 20_001,
}
# Numbers of rows at which the table may go from one entry to another.
STEPS = (1, 2, 4, 8, 16, 32, 64, 133, 256, 1000)
STEPPED = (("float32", 1000), ("float16", 32_000), ("bfloat16", 50_257), ("float32", 131_072),
           ("bfloat16", 2**18))  # fmt: skip
NEAREST = range(-1, 10)  # widths, in steps, about the widest that is dealt out


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
    some = list(cases(regime, present(), every=True))
    compile_all(some)
    runs = ((str(case), run_case(case, n, GUARD)) for n, case in enumerate(some))
    wrong = {case: reason for case, reason in runs if reason}
    assert wrong == {}


@pytest.fixture(scope="module")
def random_rows() -> list[Drawn]:
    """The drawn rows, whose kernels are compiled."""
    some = drawn()
    compile_all(one.case(present()) for one in some)
    return some


def test_random_rows_columns_strides_and_offsets_agree_with_float64(random_rows: list[Drawn]):
    softmax = bind("frontier")

    def launch(x: Tensor, out: Tensor, forced: Shape | None) -> Tensor:
        return run(x, out, forced) if forced else softmax(x, out)

    wrong = {str(one): reason for one in random_rows if (reason := fault(one, "cuda", launch))}
    assert wrong == {}


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_nothing_is_done_where_there_are_no_elements(shape: tuple[int, int]):
    empty = torch.empty(shape, device="cuda")
    assert bind("frontier")(empty, torch.empty_like(empty)).shape == shape


@pytest.mark.parametrize(("dtype", "cols"), STEPPED)
def test_invariant_bits_of_rows_are_one_whatever_their_number(dtype: str, cols: int):
    compile_all(stepped(dtype, cols, present()))
    x = planted(STEPS[-1] + 100, cols, getattr(torch, dtype), "cuda", seed=cols)
    whole = frontier.softmax(x, torch.full_like(x, torch.nan), invariant=True)
    assert check(x, whole).ok
    for rows in STEPS:
        some = x[:rows]
        alone = frontier.softmax(some, torch.full_like(some, torch.nan), invariant=True)
        assert torch.equal(alone, whole[:rows]), rows


def stepped(dtype: str, cols: int, gpu: Gpu) -> list[Case]:
    """What serves so many rows, and all of them."""
    return [
        Case(chosen(LAYOUTS[0], dtype, rows, cols, gpu, invariant=True), dtype, rows, cols,
             LAYOUTS[0])
        for rows in (*STEPS, STEPS[-1] + 100)
    ]  # fmt: skip


@pytest.mark.parametrize("layout", ["contiguous", "one element off", "sliced input"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_row_is_right_on_both_sides_of_the_widest_that_is_dealt_out(dtype: str, layout: str):
    gpu, regimes = present(), set()
    widest, step = widest_dealt(dtype, BY_NAME[layout], gpu)
    some = [
        Drawn(dtype, 1, widest + step * away, one_row(BY_NAME[layout]), False, None, away + 1)
        for away in NEAREST
    ]
    compile_all(one.case(gpu) for one in some)

    def launch(x: Tensor, out: Tensor, forced: Shape | None) -> Tensor:
        regimes.add(select(frontier._request(x, out), gpu.name).regime)
        frontier.softmax(x, out)  # of a row that takes every slot there is
        wait_for(torch.cuda.current_stream().record_event().query)
        return out

    assert {one.cols: reason for one in some if (reason := fault(one, "cuda", launch))} == {}
    assert regimes == {"chunks", "stream"}


def one_row(layout: Layout) -> Layout:
    """Of which nothing lies a gap away."""
    return replace(layout, gap_x=0, gap_out=0)


@pytest.mark.large
def test_rows_that_lie_further_apart_than_32_bits_count():
    needs(12 * 2**30)
    memory = [torch.empty(2**31 + 2**20, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
    compile_all(case for more in (8, 1) for case in far(more))
    for more in (8, 1):
        for case in far(more):
            x, out = (m.as_strided((2, case.cols), (2**31 + more, 1)) for m in memory)
            x.copy_(planted(2, case.cols, x.dtype, "cuda", seed=case.cols))
            run(x, out.fill_(torch.nan), case.shape)
            verdict = check(x.clone(), out.clone())
            assert verdict.ok, (str(case), verdict.reason)


def far(more: int) -> list[Case]:
    """Rows that lie 2^31 elements apart, and ``more``."""
    gaps = [2**31 + more - cols for cols in FAR.values()]
    layouts = [Layout("far", gap_x=gap, gap_out=gap) for gap in gaps]
    return [
        Case(shape, "bfloat16", 2, cols, layout)
        for (shape, cols), layout in zip(FAR.items(), layouts, strict=True)
    ]


@pytest.mark.large
@pytest.mark.parametrize(("dtype", "rows", "cols", "gap"), LARGE)
def test_tensors_of_more_than_2_to_31_elements(dtype: str, rows: int, cols: int, gap: int):
    assert rows * cols > 2**31
    needs(20 * rows * (cols + gap))
    x = planted(rows, cols + gap, getattr(torch, dtype), "cuda", seed=1)[:, :cols]
    y = bind("frontier")(x, torch.full(x.shape, torch.nan, dtype=x.dtype, device="cuda"))
    wraps = 2**31 // cols
    some = torch.tensor([0, 1, wraps - 1, wraps, wraps + 1, rows - 2, rows - 1], device="cuda")
    verdict = check(x[some], y[some])
    assert verdict.ok, verdict.reason
    assert bool(y.isfinite().all())


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("wide", GRID_WIDE, ids=str)
def test_a_launch_beside_a_neighbour_that_came_first(wide: Wide, share: float):
    """It is right, and ends.  A plain launch would end too, once the neighbour has: what that could
    not do, the last test of this file shows."""
    x, shape = wide.tensor(seed=5), wide.shape
    expected = run(x, torch.empty_like(x), shape)
    assert check(x, expected).ok
    y = torch.full_like(x, torch.nan)
    beside_a_neighbour(int(share * present().multiprocessors), lambda: run(x, y, shape))
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


def test_plain_launches_would_wait_for_one_another_for_good():
    """Two launches that each find half of the GPU (together.py): cooperative ones end."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.together"], cwd=ROOT.parent, capture_output=True,
        text=True, timeout=6 * PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert {regime for regime, (cooperative, _) in told.items() if not cooperative} == set()
    if ended := [regime for regime, (_, plain) in told.items() if plain]:
        pytest.skip(f"plain launches of {', '.join(ended)} ended here: nothing is shown by them")
