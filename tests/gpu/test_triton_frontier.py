"""Triton's kernels for all widths on the GPU, where they could go wrong."""

import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, product

import pytest
import torch

from experiments.check import check, planted
from experiments.pool import pool
from experiments.tune_triton import DEALT
from kernels.launch import bind
from kernels.registry import DTYPES, ELEMENT_BYTES
from kernels.triton._rows import lie
from kernels.triton._select import ONLINE, Request, Shape, possible, table
from kernels.triton.triton_frontier import run
from tests.gpu.test_frontier import layouts

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("triton_frontier")]

SHAPES = [
    Shape("held", (4, 64, 4, 1)),
    Shape("held", (8, 32, 4, 1)),
    Shape("held", (32, 2, 1, 1)),
    Shape("held", (128, 1, 4, 1)),
    Shape("held", (512, 1, 16, 1)),
    Shape("held", (512, 1, 16, 1), raw=True),
    Shape("grid", (8, 16, 2)),
    Shape("grid", (8, 16, 2), raw=True),
    Shape("grid", (16, 8, 2)),
    ONLINE,
]
WIDTHS = (1, 2, 7, 31, 63, 64, 257, 1000, 4097, 20_001, 50_257, 65_536, 131_072, 300_001)
SPECIAL_WIDTHS = (63, 1000, 50_257, 131_072)
DRAWN = 100  # random inputs


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """All kernels of this file, compiled on all cores: one process would take minutes longer."""
    jobs = [("shape", *job) for job in product(SHAPES, DTYPES, (*WIDTHS, *SPECIAL_WIDTHS))]
    jobs += [("chosen", dtype, cols) for dtype, cols in product(DTYPES, astride())]
    jobs += [("drawn", number) for number in range(DRAWN)]
    with pool("cuda") as processes:
        list(processes.map(_compile, jobs))


def _compile(job: tuple) -> None:
    """Call what a test will call; that it fails, the test is to say."""
    softmax = bind("triton_frontier")
    with suppress(Exception):
        match job:
            case "shape", shape, dtype, cols:
                for _, x, out, _ in layouts(3, cols, getattr(torch, dtype)):
                    if fits(shape, x, out):
                        run(x, out, shape)
            case "chosen", dtype, cols:
                x = torch.zeros(5, cols, dtype=getattr(torch, dtype), device="cuda")
                softmax(x, torch.empty_like(x))
            case _, number:
                (x,) = islice(drawn(), number, number + 1)
                softmax(x, torch.empty(x.shape, dtype=x.dtype, device="cuda"))
        torch.cuda.synchronize()


def astride() -> list[int]:
    """Each width that the table was measured at, and its neighbours."""
    chosen = {e.cols for entries in table("nvidia-h200").values() for e in entries}
    return sorted({c + d for c in chosen for d in (-1, 0, 1) if c < 300_000})


def drawn() -> Iterator[torch.Tensor]:
    """Inputs of random dtype, shape, stride and offset."""
    draw = random.Random(1)
    for number in range(DRAWN):
        dtype = getattr(torch, draw.choice(DTYPES))
        cols = int(2 ** draw.uniform(0, 18))
        rows = draw.randint(1, max(50, min(400, 2**20 // cols)))
        stride, offset = cols + draw.choice((0, 0, 1, 8, 13)), draw.choice((0, 0, 1, 3, 8))
        memory = torch.zeros(rows * stride + offset, dtype=dtype, device="cuda")
        x = memory.as_strided((rows, cols), (stride, 1), offset)
        yield x.copy_(planted(rows, cols, dtype, "cuda", seed=number))


def fits(shape: Shape, x: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether ``shape`` can serve these tensors on this GPU."""
    dtype = str(x.dtype).removeprefix("torch.")
    if shape.raw and ELEMENT_BYTES[dtype] == 4:
        return False
    gpu = torch.cuda.get_device_properties(x.device)
    limits = gpu.multi_processor_count, gpu.max_threads_per_multi_processor
    return possible(shape, Request(dtype, x.shape[1], lie(x, out).edges, *limits))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_shape_is_right_in_any_memory_and_writes_nothing_else(shape: Shape, dtype: str):
    done = 0
    for cols in WIDTHS:
        rows = max(3, min(300, 2**20 // cols))
        for name, x, out, memory in layouts(rows, cols, getattr(torch, dtype)):
            if not fits(shape, x, out):
                continue
            done += 1
            out.fill_(torch.nan)
            run(x, out, shape)
            verdict = check(x, out)
            assert verdict.ok, (name, cols, verdict.reason)
            out.fill_(7.0)
            assert bool((memory == 7.0).all()), (name, cols)
            inside = x.clone()
            expected = run(inside, torch.empty_like(inside), shape)
            assert torch.equal(run(inside, inside, shape), expected)
    assert done > 4 or (shape.raw and dtype == "float32")


@pytest.mark.parametrize("cols", SPECIAL_WIDTHS)
def test_special_rows_are_torchs(cols: int):
    x = torch.randn(6, cols, device="cuda")
    x[0] = -torch.inf
    x[1, cols // 2] = torch.nan
    x[2, -1] = torch.inf
    x[3, : cols - cols // 3] = -torch.inf
    x[4] += 1e4
    for dtype in (torch.float32, torch.bfloat16):
        rows = x.to(dtype)
        for shape in SHAPES:
            if fits(shape, rows, rows):
                y = run(rows, torch.empty_like(rows), shape)
                assert y[:3].isnan().all(), shape
                assert check(rows[3:], y[3:]).ok, shape


@pytest.mark.parametrize("sizes", DEALT)
def test_dealt_rows_give_the_same_bits_every_time(sizes: tuple[int, ...]):
    for raw, cols in ((False, 131_072), (True, 131_072), (True, 50_257)):
        x = planted(64, cols, torch.bfloat16 if raw else torch.float32, "cuda", seed=3)
        shape = Shape("grid", sizes, raw)
        assert fits(shape, x, x)
        first = run(x, torch.empty_like(x), shape)
        assert check(x, first).ok
        y = torch.empty_like(x)
        for _ in range(500):
            run(x, y, shape)
        assert torch.equal(y, first)
        for _ in range(50):
            assert torch.equal(run(x, y.fill_(torch.nan), shape), first)


@pytest.mark.usefixtures("collected")
def test_dealt_rows_on_two_streams_and_in_two_graphs_do_not_meet():
    shape = Shape("grid", (8, 16, 2))
    xs = [planted(32, 100_003, torch.float32, "cuda", seed=s) for s in (1, 2)]
    expected = [run(x, torch.empty_like(x), shape) for x in xs]
    ys = [torch.empty_like(x) for x in xs]
    streams, graphs = [torch.cuda.Stream() for _ in xs], []
    torch.cuda.synchronize()
    capture = torch.cuda.Stream()
    for x, y in zip(xs, ys, strict=True):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=capture):
            run(x, y, shape)
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


@pytest.mark.parametrize("dtype", DTYPES)
def test_widths_astride_every_threshold(dtype: str):
    softmax = bind("triton_frontier")
    for cols in astride():
        x = planted(max(5, 2**16 // cols), cols, getattr(torch, dtype), "cuda", seed=cols)
        verdict = check(x, softmax(x, torch.full_like(x, torch.nan)))
        assert verdict.ok, (cols, verdict.reason)


def test_random_shapes_strides_and_offsets_agree_with_float64():
    softmax = bind("triton_frontier")
    for x in drawn():
        y = softmax(x, torch.full(x.shape, torch.nan, dtype=x.dtype, device="cuda"))
        assert check(x, y).ok, (x.dtype, x.shape, x.stride(), x.storage_offset())
    empty = torch.empty(0, 5, device="cuda")
    assert softmax(empty, torch.empty_like(empty)).shape == (0, 5)
