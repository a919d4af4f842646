"""Global memory in which the blocks of a launch meet: zeroed once, left ready for the next launch.

It comes from the driver, not from torch: torch's allocator would take it from the pool of a graph
that is being captured, whose replays may not share it, and zero it again in every replay.
"""

from functools import cache
from typing import Any

from cuda.bindings import driver

from kernels.prepared import checked, relaxed


def scratch(size: int, device: int, stream: int) -> int:
    """The address of ``size`` bytes for launches on ``stream`` of the current GPU.

    A stream keeps its own for good, and so does each graph for each stream that it was captured
    from, since graphs may run beside one another: some kilobytes a graph, but megabytes where rows
    are many and dealt in chunks, or columns are taken in bands; nobody takes them back.
    A graph that was instantiated twice must not run beside itself.
    """
    return _memory(size, device, stream, _capture(stream))


def _capture(stream: int) -> int:
    """A number of the CUDA graph that ``stream`` is being captured into; 0 for none."""
    error, status, number, *_ = driver.cuStreamGetCaptureInfo(stream)
    active = driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    success = error == driver.CUresult.CUDA_SUCCESS
    return int(number) if success and status == active else 0


@cache
def _memory(size: int, device: int, stream: int, capture: int) -> int:
    wanted = f"{size} bytes of scratch memory"
    with relaxed():
        private = _private_stream(device)
        memory = checked(driver.cuMemAlloc(size), wanted)
        checked(driver.cuMemsetD8Async(memory, 0, size, private), wanted)
        checked(driver.cuStreamSynchronize(private), wanted)
    return int(memory)


@cache
def _private_stream(device: int) -> Any:
    """One that no other stream waits for, and that nobody captures."""
    flag = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
    return checked(driver.cuStreamCreate(flag), "a stream")
