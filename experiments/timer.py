"""Timers: what one call costs on the device, and what a caller waits for.

Device time is a CUDA graph of K calls over K pairs of buffers, replayed after a write that
empties the L2 of them: every call reads cold.  The write also keeps the GPU busy while the host
queues the events and the replay, so that no launch is timed.
"""

import gc
import time
from collections.abc import Sequence
from functools import partial
from statistics import median

import torch
from torch import Tensor

from experiments.check import planted
from experiments.sweeps import Point
from experiments.tables import useful_bytes
from kernels.launch import Softmax
from kernels.outputs import Output, empty_output
from kernels.registry import Variant

Pair = tuple[Tensor, Output]

# A replay of 2 GiB lasts half a millisecond at 4 TB/s: a thousand times an event's resolution, and
# the microseconds in which the GPU fills and drains are under one per cent of it.
REPLAY_BYTES = 2**31
MOST_PAIRS = 64
# Slow variants get fewer calls a replay and fewer replays, so that no point takes seconds.
REPLAY_NS = 5e6
L2_MULTIPLE = 3
# Calls by the clock scatter by a microsecond or two; these last some milliseconds.
CALLS = 25


def buffers(point: Point, device: str, seed: int) -> Sequence[tuple[Tensor, Tensor]]:
    """Pairs of (rows, cols) inputs, equal in content, and outputs; all apart in memory."""
    l2 = L2_MULTIPLE * torch.cuda.get_device_properties(device).L2_cache_size
    pair_bytes = useful_bytes(point.rows, point.cols, point.dtype)
    count = min(MOST_PAIRS, max(1, -(-max(REPLAY_BYTES, l2) // pair_bytes)))
    x = planted(point.rows, point.cols, getattr(torch, point.dtype), device, seed)
    inputs = [x, *(x.clone() for _ in range(count - 1))]
    return [(x, torch.empty_like(x)) for x in inputs]


def pairs_for(v: Variant, pairs: Sequence[Pair]) -> Sequence[Pair]:
    """``pairs`` as ``v`` takes them: a variant that gives the k largest has outputs of its own."""
    return [(x, empty_output(v, x)) for x, _ in pairs] if v.k else pairs


class Flush:
    """Evicts everything from the L2 by writing three times its size."""

    def __init__(self, device: str) -> None:
        size = L2_MULTIPLE * torch.cuda.get_device_properties(device).L2_cache_size
        self._scratch = torch.empty(size, dtype=torch.uint8, device=device)

    def __call__(self) -> None:
        self._scratch.zero_()


class DeviceTimer:
    """Device time of one variant over ``pairs``; ``name`` says how: graph, or events.

    Where ``graph`` is False or the capture fails, the events stand around plain calls.
    """

    def __init__(
        self,
        fn: Softmax,
        pairs: Sequence[Pair],
        flush: Flush,
        estimate_ns: float,
        graph: bool = True,
    ) -> None:
        self._flush = flush
        self._pairs = pairs[: max(1, int(REPLAY_NS / max(estimate_ns, 1.0)))]
        self._fn = fn
        self._events = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.slow = estimate_ns * len(self._pairs) > REPLAY_NS
        self._graph = self._capture() if graph else None
        self.name = "events" if self._graph is None else "graph"

    def sample(self) -> float:
        """Nanoseconds a call: one replay divided by its calls."""
        before, after = self._events
        # Plain calls take the host some 10 us each; a flush keeps the GPU busy for 40.
        for _ in range(1 if self._graph else 1 + len(self._pairs) // 2):
            self._flush()
        before.record()
        if self._graph is None:
            for x, out in self._pairs:
                self._fn(x, out)
        else:
            self._graph.replay()
        after.record()
        after.synchronize()
        return before.elapsed_time(after) * 1e6 / len(self._pairs)

    def _capture(self) -> torch.cuda.CUDAGraph | None:
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            # Not torch.cuda.graph(): that empties torch's memory cache at every capture.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for x, out in self._pairs:
                    self._fn(x, out)
                graph.capture_end()
            except torch.OutOfMemoryError:
                _abandon(graph)
                raise
            except Exception:  # whatever it raises, plain calls may still work
                _abandon(graph)
                return None
        if not self.slow:  # the first replay also uploads the graph: microseconds
            graph.replay()
        torch.cuda.synchronize()
        return graph


def _abandon(graph: torch.cuda.CUDAGraph) -> None:
    """End a capture that failed; the error it ends with is the one already seen."""
    try:
        graph.capture_end()
    except RuntimeError:
        gc.collect()


def call_ns(fn: Softmax, pair: Pair, flush: Flush) -> float:
    """What a caller waits for, in nanoseconds: the call, its launch and its end; L2 cold."""
    flush()
    torch.cuda.synchronize()
    start = time.perf_counter_ns()
    fn(*pair)
    torch.cuda.synchronize()
    return float(time.perf_counter_ns() - start)


class CallTimer:
    """What a caller of one variant waits for; ``name`` says so."""

    name, slow = "call", False

    def __init__(self, fn: Softmax, pair: Pair, flush: Flush) -> None:
        self._call = partial(call_ns, fn, pair, flush)
        for _ in range(CALLS):
            self._call()

    def sample(self) -> float:
        """Nanoseconds of the median of CALLS calls."""
        return median(self._call() for _ in range(CALLS))


def host_ns(fn: Softmax, pair: Pair) -> float:
    """Nanoseconds of a call on the CPU."""
    start = time.perf_counter_ns()
    fn(*pair)
    return float(time.perf_counter_ns() - start)


def estimate_ns(fn: Softmax, pair: Pair) -> float:
    """One warm call's device time in nanoseconds, to size the replays with."""
    before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before.record()
    fn(*pair)
    after.record()
    after.synchronize()
    return before.elapsed_time(after) * 1e6
