"""Do two launches end whose blocks wait for one another, where each finds half of the GPU?

    python -m tests.gpu.together

A neighbour holds half of the multiprocessors; a launch comes, then another one in a stream of a
higher priority; the neighbour ends.  Cooperative launches start with all of their blocks or not at
all, and end.  Without the attribute the first one's blocks wait, on one half, for those that have
found no place, and the second one's, which go before those, have the other half and wait alike.

Whoever waits in vain is then told that all is posted: every kernel ends, with wrong results, and
nothing is left on the GPU.
"""

import json
import sys
import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from experiments.check import planted
from experiments.launches import present
from kernels import prepared
from kernels.frontier import frontier
from kernels.frontier.plans import Shape
from kernels.prepared import Prepared
from tests.gpu.neighbours import PATIENCE_S, Neighbour, done_within

SCRATCH_WORDS = 2**15  # of 8 bytes
ENOUGH_S = 2.0  # for launches of tens of microseconds
MOMENT_S = 0.02  # for the GPU to start what it can


class Wide(NamedTuple):
    """Rows that blocks all over the GPU share, by a kernel that is launched cooperatively."""

    shape: Shape
    dtype: str
    rows: int
    cols: int

    def tensor(self, seed: int) -> Tensor:
        return planted(self.rows, self.cols, getattr(torch, self.dtype), "cuda", seed)


# A block has a multiprocessor, or two share one: half of the GPU holds half of each launch.
WIDE = (
    Wide(Shape("chunks", (2048, 6, 8, 16, 1, 2, 3)), "float32", 48, 300_001),
    Wide(Shape("grid", (256, 66, 2)), "float32", 4, 2**20),
)


def plain(
    function: Any, grid: int, threads: int, shared: int, arguments: Any, cluster: int,
    cooperative: bool, early: bool,
) -> Prepared:  # fmt: skip
    """A launch that is prepared as any other, and not cooperative."""
    return Prepared(function, grid, threads, shared, arguments, cluster, False, early)


def all_posted() -> Tensor:
    """What makes of scratch memory one in which all tickets of a first launch are posted.

    Words of deal.cuh: the launch's number above a maximum of 0, and above a sum of 1; what stands
    before them is left.
    """
    (one,) = torch.ones(1).view(torch.int32).tolist()
    return torch.tensor([1 << 32, 1 << 32 | one]).repeat(SCRATCH_WORDS // 2)[2:]


def zeros() -> Tensor:
    return torch.zeros(SCRATCH_WORDS, dtype=torch.int64)


def ended(wide: Wide, cooperative: bool) -> bool:
    """Whether both launches ended, with the right results, and nobody told them to."""
    x = wide.tensor(seed=5)
    expected = frontier.run(x, torch.empty_like(x), wide.shape)
    streams = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    memories = {s.cuda_stream: zeros().cuda() for s in streams}
    ys = [torch.full_like(x, torch.nan) for _ in streams]
    side, host = torch.cuda.Stream(), zeros().pin_memory()
    release = all_posted().pin_memory()

    def begun(memory: Tensor) -> bool:
        with torch.cuda.stream(side):  # by the copy engine, which needs no multiprocessor
            host.copy_(memory, non_blocking=True)
        side.synchronize()
        return bool(host.any())

    before = frontier.scratch, frontier.Prepared, prepared.THREAD.launches
    frontier.scratch = lambda size, device, stream: memories[stream].data_ptr()
    frontier.Prepared = Prepared if cooperative else plain
    prepared.THREAD.launches = {}
    try:
        neighbour, events = Neighbour(present().multiprocessors // 2), []
        neighbour.start()
        assert done_within(PATIENCE_S, neighbour.has_started)
        for stream, y in zip(streams, ys, strict=True):
            with torch.cuda.stream(stream):
                frontier.run(x, y, wide.shape)
                events.append(stream.record_event())
            if not cooperative and not events[1:]:
                done_within(1.0, lambda: begun(memories[streams[0].cuda_stream]))
            time.sleep(MOMENT_S)
        neighbour.end()
        done = done_within(ENOUGH_S, lambda: all(event.query() for event in events))
        if not done:
            with torch.cuda.stream(side):
                for memory in memories.values():
                    memory[2:].copy_(release, non_blocking=True)
            if not done_within(PATIENCE_S, lambda: all(event.query() for event in events)):
                sys.exit("kernels that were told to go on did not end")
        torch.cuda.synchronize()
    finally:
        frontier.scratch, frontier.Prepared, prepared.THREAD.launches = before
    return done and all(torch.equal(y, expected) for y in ys)


def main() -> None:
    """Print, by regime, whether launches ended: cooperative ones, and plain ones."""
    told = {wide.shape.regime: [ended(wide, True), ended(wide, False)] for wide in WIDE}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
