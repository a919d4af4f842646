"""Wait until the CPU is this process's own: what callers wait for is else others' load too.

On a shared host that comes in bursts, of tenths of a second to seconds, in which the same call
takes up to twice as long.  A loop that knows nothing of kernels tells: nothing is timed while it
takes longer than it can.
"""

import time

TURNS = 4_000  # of the loop, some 0.1 ms
LEARNING = 100  # loops, of which the fastest is the first measure
BUSY = 1.15  # times the fastest so far
PAUSE_S = 5e-3
# Of a process in all: a host that is never quiet is measured as it is.
PATIENCE_S = 60.0


def loop_ns() -> int:
    """Nanoseconds that the loop takes now."""
    start = time.perf_counter_ns()
    for _ in range(TURNS):
        pass
    return time.perf_counter_ns() - start


class QuietHost:
    """Of one process: ``waited_s`` seconds so far, and how often that was in vain (``missed``)."""

    def __init__(self) -> None:
        self.fastest = min(loop_ns() for _ in range(LEARNING))
        self.waited_s, self.missed = 0.0, 0

    def wait(self) -> None:
        """Until the host is quiet, or until there is no patience left."""
        while self._busy():
            if self.waited_s >= PATIENCE_S:
                self.missed += 1
                return
            time.sleep(PAUSE_S)
            self.waited_s += PAUSE_S

    def _busy(self) -> bool:
        now = loop_ns()
        self.fastest = min(self.fastest, now)
        return now > BUSY * self.fastest
