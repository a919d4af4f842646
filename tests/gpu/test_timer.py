"""The timers and the sampler, on the GPU that they are for."""

import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from experiments.nvml import PERIOD_S, Sampler
from experiments.sweeps import Point
from experiments.tables import useful_bytes
from experiments.timer import DeviceTimer, Flush, buffers, call_ns, estimate_ns
from kernels.launch import bind

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

MIB = 2**20
COLS = 4096


def rows(mib: int) -> int:
    """Rows of a float32 tensor of so many MiB."""
    return mib * MIB // (4 * COLS)


@pytest.fixture(autouse=True)
def memory_returned() -> Iterator[None]:
    yield
    torch.cuda.empty_cache()


def timer_of(mib: int, graph: bool = True) -> DeviceTimer:
    pairs = buffers(Point("float32", rows(mib), COLS), "cuda", seed=1)
    copy = bind("copy_torch")
    copy(*pairs[0])
    return DeviceTimer(copy, pairs, Flush("cuda"), estimate_ns(copy, pairs[0]), graph)


def median_ns(timer: DeviceTimer, samples: int = 21) -> float:
    for _ in range(3):
        timer.sample()
    return float(np.median([timer.sample() for _ in range(samples)]))


def plain_ns(fn: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, calls: int) -> float:
    """Events around so many calls, as any tutorial has it."""
    before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(3):
        fn(x, y)
    torch.cuda.synchronize()
    before.record()
    for _ in range(calls):
        fn(x, y)
    after.record()
    after.synchronize()
    return before.elapsed_time(after) * 1e6 / calls


def test_graphs_agree_with_plain_events_where_launches_do_not_count():
    # At 256 MiB a copy lasts 50 launches and leaves nothing of itself in the L2.
    graph = timer_of(256)
    assert graph.name == "graph"
    x = torch.randn(rows(256), COLS, device="cuda")
    plain = plain_ns(bind("copy_torch"), x, torch.empty_like(x), calls=20)
    assert median_ns(graph) == pytest.approx(plain, rel=0.2)


def test_events_of_our_own_agree_with_graphs():
    events = timer_of(256, graph=False)
    assert events.name == "events"
    assert median_ns(events) == pytest.approx(median_ns(timer_of(256)), rel=0.2)


def test_times_scale_with_bytes():
    # Not to 512 MiB: from there on a graph gives a copy to the copy engine (kernels/registry.py).
    small, large = median_ns(timer_of(64)), median_ns(timer_of(256))
    assert large / small == pytest.approx(4, rel=0.2)


def test_what_cannot_be_captured_is_timed_with_events():
    def synchronising(x: Tensor, y: Tensor) -> Tensor:
        torch.cuda.synchronize()
        return y.copy_(x)

    pairs = buffers(Point("float32", rows(64), COLS), "cuda", seed=1)
    timer = DeviceTimer(synchronising, pairs, Flush("cuda"), 1e5)
    assert timer.name == "events"
    assert timer.sample() > 0
    assert timer_of(64).name == "graph"


def test_small_points_rotate_over_more_than_the_l2():
    l2 = torch.cuda.get_device_properties("cuda").L2_cache_size
    point = Point("bfloat16", 64, 32_000)
    pairs = buffers(point, "cuda", seed=1)
    assert len(pairs) * useful_bytes(64, 32_000, "bfloat16") >= 3 * l2
    addresses = {t.data_ptr() for pair in pairs for t in pair}
    assert len(addresses) == 2 * len(pairs)
    first, *others = (x for x, _ in pairs)
    assert all(torch.equal(first, x) for x in others)


def test_a_call_waits_for_its_end():
    x = torch.randn(rows(256), COLS, device="cuda")
    pair = x, torch.empty_like(x)
    copy = bind("copy_torch")
    device = plain_ns(copy, *pair, calls=5)
    flush = Flush("cuda")
    waited = float(np.median([call_ns(copy, pair, flush) for _ in range(9)]))
    assert waited > 0.8 * device


def test_the_sampler_reads_clocks_power_and_temperature():
    uuid = f"GPU-{torch.cuda.get_device_properties('cuda').uuid}"
    x = torch.randn(rows(256), COLS, device="cuda")
    with Sampler(uuid) as sampler:
        for _ in range(200):
            x.mul_(1.0)
        torch.cuda.synchronize()
        reading = sampler.latest
    for value in (reading.sm_clock_mhz, reading.mem_clock_mhz, reading.power_w, reading.temp_c):
        assert math.isfinite(value)
        assert value > 0
    assert reading.throttle_mask == int(reading.throttle_mask)


def test_the_sampler_goes_on_reading_unless_it_is_held():
    uuid = f"GPU-{torch.cuda.get_device_properties('cuda').uuid}"
    with Sampler(uuid) as sampler:
        first = sampler.latest
        time.sleep(20 * PERIOD_S)
        assert sampler.latest is not first
        with sampler.held():
            held = sampler.latest
            time.sleep(20 * PERIOD_S)
            assert sampler.latest is held
