"""Each regime of the frontier on the GPU, where its kernels could go wrong."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product, repeat

import pytest
import torch

from experiments.check import check, planted
from experiments.pool import pool
from kernels.compiled import Job
from kernels.frontier.compiler import compile_plan
from kernels.frontier.plans import ALIKE, APART, NONE, VECTOR_BYTES, Plan, Shape
from kernels.frontier.select import INVARIANT_COLS
from kernels.launch import architecture
from kernels.registry import DTYPES, ELEMENT_BYTES

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("hopper"),
    pytest.mark.xdist_group("frontier"),
]

REGIMES = [
    Shape("warp", (32, 64)),
    Shape("warp", (32, 32), together=2),
    Shape("warp", (32, 128), together=2, early=False),
    Shape("tile", (16, 64)),
    Shape("tile", (8, 128)),
    Shape("block", (128, 1)),
    Shape("block", (256, 1), raw=True),
    Shape("block", (256, 4), exchanges=2),
    Shape("block", (512, 2), raw=True, exchanges=2),
    Shape("cluster", (128, 4, 1)),
    Shape("cluster", (256, 16, 2), raw=True),
    Shape("staged", (512, 1, 1)),
    Shape("staged", (256, 4, 2)),
    Shape("staged", (128, 16, 1)),
    Shape("grid", (256, 4, 1)),
    Shape("grid", (512, 5, 2), raw=True),
    Shape("chunks", (512, 27, 8, 8, 4, 4, 27)),
    Shape("chunks", (1024, 13, 8, 16, 2, 1, 13)),
    Shape("chunks", (1024, 13, 8, 8, 2, 3, 2)),
    Shape("chunks", (256, 32, 8, 8, 1, 1, 5)),
    Shape("stream", (1024,)),
]
INVARIANT = [
    replace(shape, invariant=True)
    for shape in REGIMES
    if shape.regime != "chunks" or (shape.sizes[5] == 1 and shape.sizes[3] == 8)
]
WIDTHS = {
    "warp": (1, 7, 31, 256, 500, 1000),
    "tile": (1, 33, 63, 129),
    "block": (1, 100, 1024, 4097, 6001),
    "cluster": (128, 4096, 20_001, 32_768),
    # 12,256 float32 need 48 KB with what the kernel has beside them, and not without.
    "staged": (1, 7, 100, 4097, 12_256, 20_001, 50_257),
    "grid": (1, 4096, 20_001, 50_257),
    "chunks": (1, 2048, 16_384, 50_257, 131_072, 300_001),
    "stream": (1, 781, 20_001, 131_072),
}


SPECIAL_WIDTHS = (1000, 50_257, 131_072)
SAME_BITS_WIDTHS = (7, 127, 1000, 4097, 20_001, 32_768, 131_072, 300_001)


@pytest.fixture(scope="module", autouse=True)
def kernels(hopper: None) -> None:
    """All kernels of this file, compiled on all cores: one process would take a minute longer."""
    with pool("cpu") as processes:
        list(processes.map(_compile, jobs(), repeat(architecture()), chunksize=4))


def jobs() -> list[tuple[Plan, str]]:
    """What this file compiles, each with its dtype."""
    found = {}
    for shape, dtype in product((*REGIMES, *INVARIANT), DTYPES):
        size, widths = ELEMENT_BYTES[dtype], WIDTHS[shape.regime]
        more = [c for c in (*SPECIAL_WIDTHS, *SAME_BITS_WIDTHS) if c <= widths[-1]]
        for cols in (*widths, *more):
            least = ALIKE if cols * size % VECTOR_BYTES else NONE
            for edges in (least, ALIKE, APART):
                found[shape.plan(cols, size, edges), dtype] = None
    return list(found)


def _compile(job: tuple[Plan, str], arch: str) -> None:
    plan, dtype = job
    compile_plan(plan, Job("frontier", dtype, arch))


Layout = tuple[str, torch.Tensor, torch.Tensor, torch.Tensor]


def layouts(rows: int, cols: int, dtype: torch.dtype) -> Iterator[Layout]:
    """By name: inputs, the outputs' place, and the memory around it, full of 7."""
    for name, offset, out_offset, gap, out_gap in (
        ("whole", 0, 0, 0, 0), ("off", 1, 1, 0, 0), ("apart", 1, 2, 0, 0), ("strided", 3, 0, 5, 5),
        ("sliced", 1, 0, 1, 0),
    ):  # fmt: skip
        memory = torch.full((rows * (cols + out_gap) + 64,), 7.0, dtype=dtype, device="cuda")
        wide = torch.full((rows * (cols + gap) + 64,), 7.0, dtype=dtype, device="cuda")
        shape, stride, out_stride = (rows, cols), (cols + gap, 1), (cols + out_gap, 1)
        x = wide.as_strided(shape, stride, 16 + offset)
        x.copy_(planted(rows, cols, dtype, "cuda", seed=cols))
        yield name, x, memory.as_strided(shape, out_stride, 16 + out_offset), memory


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*REGIMES, *INVARIANT], ids=str)
def test_a_regime_is_right_in_any_memory_and_writes_nothing_else(shape: Shape, dtype: str):
    from kernels.frontier.frontier import run

    kind = getattr(torch, dtype)
    for cols in WIDTHS[shape.regime]:
        rows = max(3, min(25 if shape.regime == "grid" else 300, 2**20 // cols))
        for name, x, out, memory in layouts(rows, cols, kind):
            if shape.regime == "tile" and name in ("strided", "sliced"):
                continue
            out.fill_(torch.nan)
            run(x, out, shape)
            verdict = check(x, out)
            assert verdict.ok, (name, cols, verdict.reason)
            out.fill_(7.0)
            assert bool((memory == 7.0).all()), (name, cols)
        inside = planted(rows, cols, kind, "cuda", seed=1)
        expected = run(inside, torch.empty_like(inside), shape)
        assert torch.equal(run(inside, inside, shape), expected)


@pytest.mark.parametrize("shape", REGIMES, ids=str)
@pytest.mark.usefixtures("collected")
def test_a_kernel_that_comes_early_waits_for_the_one_before(shape: Shape):
    cols = max(c for c in WIDTHS[shape.regime] if c <= 50_257)
    # So many that the first kernel takes a while, and few enough to leave room for the second.
    x = planted(min(24, 2**22 // cols), cols, torch.float32, "cuda", seed=5)
    from kernels.frontier.frontier import run

    between, twice, graph = torch.empty_like(x), torch.empty_like(x), torch.cuda.CUDAGraph()
    run(x, between, shape)
    torch.cuda.synchronize()
    expected = run(between, twice, shape).clone()
    # In a graph, since Python takes longer to launch the second than the first runs.
    with torch.cuda.graph(graph):
        run(run(x, between, shape), twice, shape)
    for _ in range(50):
        between.fill_(torch.nan)
        graph.replay()
        assert torch.equal(twice, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cols", SPECIAL_WIDTHS)
def test_special_rows_are_torchs(cols: int, dtype: str):
    from kernels.frontier.frontier import run

    kind = getattr(torch, dtype)
    x, least = torch.randn(11, cols, device="cuda", dtype=kind), torch.finfo(kind).min
    x[0] = -torch.inf
    x[1, cols // 2] = torch.nan
    x[2, -1] = torch.inf
    x[3, ::2] = -torch.inf
    x[4] += 1e4
    x[5] -= 3e4
    x[6] = least  # as masks have it
    x[7, ::3] = least
    x[8, 5] = -least
    x[9] = 300.0
    x[10] *= 100
    for shape in (*REGIMES, *INVARIANT):
        if cols <= WIDTHS[shape.regime][-1]:
            y = run(x, torch.empty_like(x), shape)
            assert y[:3].isnan().all(), shape
            verdict = check(x[3:], y[3:])
            assert verdict.ok, (shape, verdict.reason)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cols", SAME_BITS_WIDTHS)
def test_invariant_bits_are_one_whatever_the_regime_the_rows_and_the_place(cols: int, dtype: str):
    from kernels.frontier.frontier import run

    kind, rows = getattr(torch, dtype), 5
    memory = torch.empty(2 * rows * (cols + 3) + 8, dtype=kind, device="cuda")
    x = planted(rows, cols, kind, "cuda", seed=cols)
    apart = memory.as_strided((rows, cols), (cols + 3, 1), 5).copy_(x)
    expected = run(x, torch.empty_like(x), Shape("stream", (1024,), invariant=True))
    assert check(x, expected).ok
    for shape in INVARIANT:
        if cols <= WIDTHS[shape.regime][-1]:
            assert torch.equal(run(x, torch.empty_like(x), shape), expected), shape
            alone = run(x[2:3], torch.empty_like(x[2:3]), shape)
            assert torch.equal(alone, expected[2:3]), shape
            if shape.regime != "tile":
                assert torch.equal(run(apart, torch.empty_like(x), shape), expected), shape


@pytest.mark.parametrize("dtype", DTYPES)
def test_invariant_sums_hold_at_their_widest(dtype: str):
    from kernels.frontier.frontier import softmax

    # Of 261,120 the exponential in bfloat16 exceeds 1 by as much as it can.
    for value in (0.0, 261_120.0 if dtype == "bfloat16" else 49_984.0):
        x = torch.full((1, INVARIANT_COLS), value, dtype=getattr(torch, dtype), device="cuda")
        y = softmax(x, torch.empty_like(x), invariant=True)
        assert check(x, y).ok, value


@pytest.mark.usefixtures("collected")
def test_dealt_rows_on_two_streams_and_in_two_graphs_do_not_meet():
    from kernels.frontier.frontier import run

    shape = Shape("chunks", (1024, 13, 8, 16, 2, 1, 4))
    xs = [planted(32, 100_003, torch.float32, "cuda", seed=s) for s in (1, 2)]
    expected = [run(x, torch.empty_like(x), shape) for x in xs]
    ys, streams, graphs = [torch.empty_like(x) for x in xs], [], []
    torch.cuda.synchronize()
    capture = torch.cuda.Stream()
    for x, y in zip(xs, ys, strict=True):
        streams.append(torch.cuda.Stream())
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=capture):
            run(x, y, shape)
        graphs.append(graph)
    for work in (
        [lambda x=x, y=y: run(x, y, shape) for x, y in zip(xs, ys, strict=True)],
        [graph.replay for graph in graphs],
    ):
        for y in ys:
            y.fill_(torch.nan)
        torch.cuda.synchronize()
        for _ in range(20):
            for stream, do in zip(streams, work, strict=True):
                with torch.cuda.stream(stream):
                    do()
        torch.cuda.synchronize()
        assert all(torch.equal(y, e) for y, e in zip(ys, expected, strict=True))
