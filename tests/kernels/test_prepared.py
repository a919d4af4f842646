"""What reaches the driver: pointers, integers and configuration, of a driver that only listens."""

import ctypes
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from cuda.bindings import driver
from torch import Tensor

from kernels import prepared
from kernels.frontier import backward, frontier, scratch
from kernels.frontier.plans import ALIKE, HERE, Plan, Shape, deal
from kernels.frontier.rows import Rows, as_rows
from kernels.prepared import Prepared, checked, launch
from tests.gpu.together import plain

EARLY = {"PROGRAMMATIC_STREAM_SERIALIZATION": 1}
ARGUMENTS = {"grid": 8, "chunks": 11}  # of a kernel; of others 6


@dataclass
class Launched:
    """A launch as the driver sees it."""

    plan: Plan
    grid: int
    threads: int
    shared: int
    stream: int
    attributes: dict[str, int]
    values: list[int]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Launched]:
    """Every launch, on a device -1 of 132 multiprocessors; nothing runs."""
    seen: list[Launched] = []

    def listen(config: Any, plan: Plan, addresses: int, extra: int) -> tuple[Any]:
        count = ARGUMENTS.get(plan.shape.regime, 6)
        count += 2 * plan.file.name.startswith("backward")
        at = (ctypes.c_void_p * count).from_address(addresses)
        attributes = {
            # Of one number or three: the first.
            a.id.name.removeprefix("CU_LAUNCH_ATTRIBUTE_"): a.value.clusterDim.x
            for a in config.attrs[: config.numAttrs]
        }
        seen.append(
            Launched(
                plan, config.gridDimX, config.blockDimX, config.sharedMemBytes,
                int(config.hStream), attributes,
                [ctypes.c_int64.from_address(place or 0).value for place in at],
            )
        )  # fmt: skip
        return (driver.CUresult.CUDA_SUCCESS,)

    monkeypatch.setattr(driver, "cuLaunchKernelEx", listen)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 77, raising=False)
    monkeypatch.setattr(prepared, "make_current", lambda device: None)
    monkeypatch.setattr(prepared, "relaxed", nullcontext)
    monkeypatch.setattr(prepared, "THREAD", prepared._Thread())
    for module in (frontier, backward):
        monkeypatch.setattr(module, "gpu", lambda i: frontier.Gpu("nvidia-h200", 90, 132))
        monkeypatch.setattr(module, "kernel", lambda plan, dtype, device: plan)
        monkeypatch.setattr(module, "allow", lambda plan, name, value: None)
    monkeypatch.setattr(frontier, "scratch", lambda size, device, stream: 10**9 + size)
    return seen


def test_a_row_of_any_regime_gets_its_arguments_in_order(launched: list[Launched]):
    x, y = torch.zeros(64, 1032)[:, :1024], torch.zeros(64, 1040)[:, :1024]
    for shape in (Shape("warp", (32, 128)), Shape("block", (128, 1)), Shape("stream", (1024,))):
        assert frontier.run(x, y, shape) is y
        seen = launched.pop()
        assert seen.values == [x.data_ptr(), y.data_ptr(), 1032, 1040, 1024, 64]
        assert (seen.grid, seen.shared, seen.stream) == (
            64 // (128 // 32) if shape.regime == "warp" else 64,
            0,
            77,
        )
        assert seen.threads == seen.plan.threads
        assert seen.attributes == EARLY
    # Five rows of two groups, each with two of them; what does not await its turn is not early.
    late = Shape("warp", (16, 32), together=2, early=False)
    frontier.run(x[:5], y[:5], late)
    seen = launched.pop()
    assert (seen.grid, seen.threads, seen.attributes) == (2, 32, {})
    frontier.run(x[:5], y[:5], replace(late, early=True))
    assert launched.pop().attributes == EARLY
    frontier.run(x, y, Shape("cluster", (128, 4, 1)))
    seen = launched.pop()
    assert (seen.grid, seen.attributes) == (64 * 4, {"CLUSTER_DIMENSION": 4} | EARLY)
    tile, odd = Shape("tile", (8, 64)), torch.zeros(100, 33)
    frontier.run(odd, odd, tile)
    seen = launched.pop()
    assert seen.values == [odd.data_ptr(), odd.data_ptr(), 33, 100, 32, 3]
    assert (seen.grid, seen.shared) == (4, 32 * 33 * 4 + 16)


def test_dealt_rows_get_scratch_memory_at_every_launch(launched: list[Launched]):
    shape = Shape("chunks", (512, 27, 8, 8, 4, 1, 27))
    x = torch.zeros(5, 50_257)
    frontier.run(x, x, shape)
    (seen,) = launched
    dealt = deal(shape, 50_257, 4, ALIKE, lines=False)
    size = 16 + 16 * (1 << (5 * dealt.tickets - 1).bit_length())
    assert seen.values == [
        x.data_ptr(), x.data_ptr(), 50_257, 50_257, 50_257, 5, dealt.chunks, dealt.vectors, 4,
        27, 10**9 + size,
    ]  # fmt: skip
    assert (seen.grid, seen.shared) == (132, 512 * 27 * 16)
    assert seen.attributes == {"COOPERATIVE": 1} | EARLY
    frontier.run(x, x, replace(shape, invariant=True))
    assert launched[1].values[-1] == 10**9 + 16 + 16 * (1 << (10 * dealt.tickets - 1).bit_length())
    assert launched[1].threads > seen.threads


@pytest.mark.parametrize("invariant", [False, True])
def test_rows_of_a_grid_are_launched_with_all_their_blocks_or_none(
    launched: list[Launched], monkeypatch: pytest.MonkeyPatch, invariant: bool
):
    shape, x = Shape("grid", (256, 26, 1), invariant=invariant), torch.zeros(5, 50_257)
    frontier.run(x, x, shape)
    (seen,) = launched
    size = 16 + 16 * (1 << (5 * 26 * (1 + invariant) - 1).bit_length())
    assert seen.values == [
        x.data_ptr(), x.data_ptr(), 50_257, 50_257, 50_257, 5, 26, 10**9 + size
    ]  # fmt: skip
    assert (seen.grid, seen.threads, seen.shared) == (5 * 26, 256, 0)
    assert seen.attributes == {"COOPERATIVE": 1} | EARLY
    # The fault that tests/gpu plants: the same launch, whose blocks start as they find room.
    monkeypatch.setattr(frontier, "Prepared", plain)
    monkeypatch.setattr(prepared, "THREAD", prepared._Thread())
    frontier.run(x, x, shape)
    assert launched[1] == replace(seen, attributes=EARLY)


def test_a_gradient_gets_three_tensors(launched: list[Launched]):
    y, grad, out = (torch.zeros(3, 4104 + i)[:, :4096] for i in (0, 8, 16))
    backward.softmax_backward(grad, y, out)
    (seen,) = launched
    pointers = [t.data_ptr() for t in (y, grad, out)]
    assert seen.values == [*pointers, 4104, 4112, 4120, 4096, 3]
    # A block a row, or a cluster: as was measured.
    assert seen.grid == 3 * seen.attributes.get("CLUSTER_DIMENSION", 1)
    assert not seen.plan.edges
    off = torch.zeros(3, 4105)[:, 1:4097]
    backward.softmax_backward(grad, y, off)
    assert launched[1].plan.edges
    wide = torch.zeros(2, 100_000)
    backward.softmax_backward(wide, wide, wide)
    assert launched[2].attributes == {"CLUSTER_DIMENSION": 16} | EARLY
    assert launched[2].grid == 32


def test_a_launch_is_prepared_once_and_again_where_memory_lies_otherwise(
    launched: list[Launched], monkeypatch: pytest.MonkeyPatch
):
    asked = []
    prepare = frontier.prepare
    monkeypatch.setattr(frontier, "prepare", lambda *a: (asked.append(a), prepare(*a))[1])
    memory = torch.zeros(70_000)
    memory = memory[-memory.data_ptr() % 128 // 4 :]
    views = [memory[offset : offset + 64 * 512].view(64, 512) for offset in (0, 32, 1, 4)]
    for _ in range(3):
        for x in views:
            frontier.softmax(x, torch.zeros(64, 512))
    # The second starts with a line of memory as the first does.
    assert len(asked) <= 6
    assert len({seen.plan.edges for seen in launched}) == 2
    assert [s.values[0] for s in launched[:4]] == [v.data_ptr() for v in views]
    asked.clear()
    frontier.softmax(views[0], views[0], invariant=True)
    assert [a[2] for a in asked] == [True]
    assert frontier._request(views[0], views[0], invariant=True).invariant


def test_rows_and_elements_beyond_32_bits_are_counted_whole(launched: list[Launched]):
    one = torch.zeros(1, 1024)
    x = torch.empty_strided((2**21, 2**11), (0, 1), device="meta")  # its size, not its memory
    assert as_rows((2**33, 1), (1, 1)) == Rows(2**33, 1, 1)
    assert as_rows(x.shape, x.stride()) == Rows(2**21, 2**11, 0)
    function = Plan(Shape("block", (128, 1)), 2, False)
    ready = Prepared(function, 2**31 - 1, 128, 0, [None, None, 2**40, 2**41, 1024, 2**33])
    ready(5, 2**47 + 1, one.data_ptr())
    (seen,) = launched
    assert seen.values == [2**47 + 1, one.data_ptr(), 2**40, 2**41, 1024, 2**33]
    assert (seen.grid, seen.stream) == (2**31 - 1, 5)


def test_threads_share_no_launch_and_keep_few(
    launched: list[Launched], monkeypatch: pytest.MonkeyPatch
):
    made: list[int] = []

    def prepare() -> Callable[..., None]:
        made.append(threading.get_ident())
        return lambda stream, *pointers: None

    threads = [threading.Thread(target=launch, args=(-1, "key", prepare, 1)) for _ in range(3)]
    monkeypatch.setattr(prepared, "KEPT", 4)
    for thread in threads:
        thread.start()
        thread.join()
    assert len(made) == 3
    for key in range(20):
        launch(-1, key, prepare, 1)
        assert len(prepared.THREAD.launches) <= 4


def test_what_the_driver_refuses_is_said():
    refused = (driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY, None)
    with pytest.raises(RuntimeError, match=r"refuses 64 bytes.*OUT_OF_MEMORY"):
        checked(refused, "64 bytes")
    with pytest.raises(ValueError, match=r"strides \(1, 4\): pass x.contiguous"):
        frontier.rows_of(torch.zeros(3, 4).mT)


def test_memory_to_meet_in_is_one_for_a_stream_and_one_for_a_graph(monkeypatch: pytest.MonkeyPatch):
    made: list[int] = []
    captures: list[int] = [0]
    success = driver.CUresult.CUDA_SUCCESS

    def info(stream: int) -> tuple[Any, ...]:
        status = driver.CUstreamCaptureStatus(1 if captures[-1] else 0)
        return success, status, captures[-1], None, None, None, 0

    monkeypatch.setattr(driver, "cuStreamGetCaptureInfo", info)
    monkeypatch.setattr(driver, "cuMemAlloc", lambda n: (made.append(n), (success, len(made)))[1])
    monkeypatch.setattr(driver, "cuMemsetD8Async", lambda *a: (success,))
    monkeypatch.setattr(driver, "cuStreamSynchronize", lambda s: (success,))
    monkeypatch.setattr(scratch, "_private_stream", lambda device: 9)
    monkeypatch.setattr(scratch, "relaxed", nullcontext)
    scratch._memory.cache_clear()
    places = [scratch.scratch(size, 0, stream) for size in (64, 32) for stream in (5, 6, 5)]
    for capture in (11, 12, 11):
        captures.append(capture)
        places.append(scratch.scratch(64, 0, 5))
    scratch._memory.cache_clear()
    assert places == [1, 2, 1, 3, 4, 3, 5, 6, 5]


@pytest.mark.parametrize(
    ("x", "rows"),
    [
        (torch.zeros(()), Rows(1, 1, 1)),
        (torch.zeros(7), Rows(1, 7, 7)),
        (torch.zeros(7)[::2], None),
        (torch.zeros(7)[:1], Rows(1, 1, 1)),
        (torch.zeros(2, 3, 4), Rows(6, 4, 4)),
        (torch.zeros(2, 3, 4)[..., :2], Rows(6, 2, 4)),
        (torch.zeros(2, 3, 4)[:, :2], None),
        (torch.zeros(2, 3, 4)[:, 1], Rows(2, 4, 12)),
        (torch.zeros(2, 1, 4).expand(2, 5, 4), None),
        (torch.zeros(1, 4).expand(5, 4), Rows(5, 4, 0)),
        (torch.zeros(2, 3, 4).mT, None),
        (torch.zeros(5, 0), Rows(0, 0, 0)),
        (torch.zeros(1, 1).expand(0, 3), Rows(0, 3, 3)),
    ],
)
def test_a_tensor_is_rows_where_they_lie_at_even_distances(x: Tensor, rows: Rows | None):
    assert as_rows(x.shape, x.stride()) == rows


def test_only_kernels_that_await_their_turn_come_early(
    launched: list[Launched], monkeypatch: pytest.MonkeyPatch
):
    for path in HERE.glob("*.cu"):
        text = path.read_text()
        turns, waits, lets = (
            text.count(f"    {name}();\n") for name in ("await_turn", "await_last", "let_next_come")
        )
        assert turns + waits == text.count("__global__") > 0, path.name
        assert waits == lets, path.name
    # Before Hopper there is no turn to await.
    for module in (frontier, backward):
        monkeypatch.setattr(module, "gpu", lambda i: frontier.Gpu("nvidia-a100", 80, 108))
    x = torch.zeros(5, 64)
    frontier.softmax(x, torch.empty_like(x))
    backward.softmax_backward(x, x, torch.empty_like(x))
    assert [seen.attributes for seen in launched] == [{}, {}]
