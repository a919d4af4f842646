"""Gradients whose rows several blocks share: right for any rows, equal bits, and no deadlock."""

from collections.abc import Callable
from itertools import count

import pytest
import torch
from torch import Tensor

from experiments.check import check, planted
from experiments.launches import present
from experiments.watched import backward as watched
from kernels.frontier import backward, frontier
from kernels.frontier.backward import softmax_backward
from kernels.frontier.plans import Shape
from kernels.frontier.scratch import scratch
from kernels.frontier.select import DEFAULT, table
from tests.gpu.neighbours import beside_a_neighbour, wait_for

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("hopper"),
    pytest.mark.xdist_group("frontier_proof"),
]

# Columns.  Of two blocks a multiprocessor and of one; teams of nearly all of a GPU's
# multiprocessors, of half and of few, and clusters; with and without vectors in shared memory.
WIDE = {
    Shape("grid", (256, 33, 2)): 66_000,
    Shape("grid", (512, 66, 2, 2)): 520_000,
    Shape("grid", (512, 108, 1)): 400_000,
    Shape("grid", (512, 44, 3, 4)): 524_288,
    Shape("grid", (256, 5, 1)): 9000,
    Shape("cluster", (512, 16, 2, 3)): 262_144,
    Shape("cluster", (256, 4, 1, 2)): 20_000,
}
SHAPES = tuple(WIDE)
GRIDS = [shape for shape in SHAPES if shape.regime == "grid"]
CHUNKS = next(
    entry.shape
    for entries in table(DEFAULT).values()
    for entry in entries
    if entry.shape.regime == "chunks"
)
ROWS = (1, 3, 8, 9, 40, 301)
LAUNCHES = 10_000


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_row_is_right(shape: Shape, rows: int):
    for dtype, lies, told in (
        ("float32", watched.WHOLE, "softmax"), ("bfloat16", watched.OFF, "softmax"),
        ("float16", watched.WHOLE, "factors"), ("float32", watched.OFF, "masked logarithm"),
    ):  # fmt: skip
        cols = WIDE[shape] + (lies is watched.OFF)
        of = watched.GRADIENTS[told]
        wrong = watched.run(of, shape, dtype, rows, cols, lies, "cuda", seed=rows)
        assert wrong == "", (dtype, cols, told)


def gradient(shape: Shape, rows: int, seed: int) -> Callable[[Tensor], Tensor]:
    """What writes the gradient of so many rows into a tensor, by ``shape``."""
    x = planted(rows, WIDE[shape], torch.bfloat16, "cuda", seed)
    y, grad = torch.softmax(x, -1), torch.randn_like(x)
    return lambda out: softmax_backward(grad, y, out, shape=shape)


def empty(shape: Shape, rows: int) -> Tensor:
    """Where none of a gradient is yet."""
    return torch.full((rows, WIDE[shape]), torch.nan, dtype=torch.bfloat16, device="cuda")


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the memory that launches met in."""
    sizes: list[int] = []

    def noted(size: int, device: int, stream: int) -> int:
        sizes.append(size)
        return scratch(size, device, stream)

    for module in (frontier, backward):
        monkeypatch.setattr(module, "scratch", noted)
    return sizes


def meeting_in(size: int, met: list[int]) -> Tensor:
    """Rows that CHUNKS deal out in memory of ``size``."""
    for rows in count(1):
        x = planted(rows, 2**19, torch.bfloat16, "cuda", seed=4)
        frontier.run(x, torch.empty_like(x), CHUNKS)
        if met[-1] >= size:
            assert met[-1] == size
            return x
    raise AssertionError


@pytest.mark.parametrize("shape", GRIDS, ids=str)
def test_ten_thousand_launches_give_the_same_bits(shape: Shape, met: list[int]):
    """Softmaxes between them meet in the same memory, which each leaves as the next wants it."""
    rows = 17
    launch = gradient(shape, rows, seed=3)
    first, out = launch(empty(shape, rows)), empty(shape, rows)
    x = meeting_in(met[-1], met)
    probabilities, y = frontier.run(x, torch.empty_like(x), CHUNKS), torch.empty_like(x)
    assert check(x, probabilities).ok
    differs = torch.zeros((), dtype=torch.bool, device="cuda")
    for number in range(LAUNCHES):
        launch(out.fill_(torch.nan))
        differs |= (out.view(torch.int16) != first.view(torch.int16)).any()
        if number % 7 == 0:
            frontier.run(x, y.fill_(torch.nan), CHUNKS)
            differs |= (y.view(torch.int16) != probabilities.view(torch.int16)).any()
    assert not bool(differs)
    assert len(set(met[-2:])) == 1


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_launch_beside_a_neighbour_that_came_first(shape: Shape, share: float):
    launch = gradient(shape, 40, seed=5)
    expected, out = launch(empty(shape, 40)), empty(shape, 40)
    beside_a_neighbour(int(share * present().multiprocessors), lambda: launch(out))
    assert torch.equal(out, expected)


def test_launches_on_several_streams_at_once():
    work = [gradient(shape, 9, seed=6) for shape in SHAPES]
    expected = [launch(empty(s, 9)) for launch, s in zip(work, SHAPES, strict=True)]
    outs = [empty(shape, 9) for shape in SHAPES]
    streams = [torch.cuda.Stream() for _ in work]
    torch.cuda.synchronize()
    for _ in range(200):
        for stream, launch, out in zip(streams, work, outs, strict=True):
            with torch.cuda.stream(stream):
                launch(out)
    events = [stream.record_event() for stream in streams]
    wait_for(lambda: all(event.query() for event in events))
    assert all(torch.equal(out, e) for out, e in zip(outs, expected, strict=True))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_graph_of_them_gives_what_they_give(shape: Shape):
    launch, graph, out = gradient(shape, 40, seed=7), torch.cuda.CUDAGraph(), empty(shape, 40)
    expected = launch(empty(shape, 40))
    with torch.cuda.graph(graph):
        launch(out)
    for _ in range(20):
        out.fill_(torch.nan)
        graph.replay()
        assert torch.equal(out, expected)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_row_that_is_no_number_leaves_the_others_alone(shape: Shape):
    x = planted(40, WIDE[shape], torch.float32, "cuda", seed=8)
    y, grad = torch.softmax(x, -1), torch.randn_like(x)
    expected = softmax_backward(grad, y, torch.empty_like(y), shape=shape)
    for tensor, row, value in ((y, 3, torch.nan), (grad, 17, torch.inf), (grad, 39, torch.nan)):
        tensor[row, 5] = value
    dx = softmax_backward(grad, y, torch.empty_like(y), shape=shape)
    others = [row for row in range(40) if row not in (3, 17, 39)]
    assert torch.equal(dx[others], expected[others])
    assert bool(dx[[3, 39]].isnan().all())
    assert not bool(dx[17].isfinite().all())


def test_what_a_gpu_has_no_room_for_is_refused():
    y = torch.softmax(torch.randn(2, 9000, device="cuda"), -1)
    none = Shape("grid", (256, 1 + present().multiprocessors, 1))
    with pytest.raises(ValueError, match="no room for a gradient"):
        softmax_backward(y, y, torch.empty_like(y), shape=none)
