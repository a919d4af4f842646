"""Launches through the CUDA driver that a call completes by its pointers and its stream.

cuda.core's launch makes a configuration and an array of arguments for every call, which takes
longer than the driver's own part. Here each thread keeps both for the shapes that it met.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from cuda.bindings import driver
from cuda.core import Device

SUCCESS = driver.CUresult.CUDA_SUCCESS
KEPT = 4096  # launches of a thread, of about two kilobytes each

Launch = Callable[..., None]  # (stream, *pointers)


def checked(answer: tuple[Any, ...], wanted: str) -> Any:
    """What the driver answered; raises RuntimeError, which says what was ``wanted``."""
    error, *values = answer
    if error != SUCCESS:
        raise RuntimeError(f"the CUDA driver refuses {wanted}: {driver.CUresult(error).name}")
    return values[0] if values else None


@contextmanager
def relaxed() -> Iterator[None]:
    """Let this thread load code and allocate, even while a stream is captured into a graph."""
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = checked(driver.cuThreadExchangeStreamCaptureMode(mode), "a mode of capture")
    try:
        yield
    finally:
        driver.cuThreadExchangeStreamCaptureMode(before)


def load(cubin: bytes, symbol: str) -> Any:
    """Kernel ``symbol`` on the current GPU, whole: nothing is left to load at its first launch."""
    wanted = f"the kernel {symbol} (of CUDA 13: it needs driver 580 or newer)"
    library = checked(driver.cuLibraryLoadData(cubin, [], [], 0, [], [], 0), wanted)
    kernel = checked(driver.cuLibraryGetKernel(library, symbol.encode()), wanted)
    return checked(driver.cuKernelGetFunction(kernel), wanted)


def allow(function: Any, name: str, value: int) -> None:
    """Set attribute ``name`` of a kernel; raises RuntimeError where the GPU has no such thing."""
    attribute = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
    checked(driver.cuFuncSetAttribute(function, attribute, value), f"{name} of {value}")


class Prepared:
    """A launch without its stream and its pointers; it belongs to the thread that made it.

    ``arguments`` are the kernel's integers, of 32 or 64 bits, and None for every pointer.  An
    ``early`` kernel may be on the GPU before its predecessor in the stream is done, and has to wait
    for it by itself (frontier/turn.cuh).
    """

    def __init__(
        self, function: Any, grid: int, threads: int, shared: int, arguments: Sequence[int | None],
        cluster: int = 1, cooperative: bool = False, early: bool = False,
    ) -> None:  # fmt: skip
        self.function, self.stream = function, 0
        self.config = config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
        config.sharedMemBytes = shared
        attributes = []
        if cluster > 1:
            attributes.append(_attribute("CLUSTER_DIMENSION"))
            size = attributes[-1].value.clusterDim
            size.x, size.y, size.z = cluster, 1, 1
        if cooperative:
            attributes.append(_attribute("COOPERATIVE"))
            attributes[-1].value.cooperative = 1
        if early:
            attributes.append(_attribute("PROGRAMMATIC_STREAM_SERIALIZATION"))
            attributes[-1].value.programmaticStreamSerializationAllowed = 1
        if attributes:
            config.attrs = attributes
        config.numAttrs = len(attributes)
        # The pointers lie first, so that one call writes them; a kernel takes 32 bits from the
        # low half of a slot.
        slots = sorted(range(len(arguments)), key=lambda i: arguments[i] is not None)
        self.values = (ctypes.c_int64 * len(slots))(*(arguments[i] or 0 for i in slots))
        self.write = struct.Struct(f"={list(arguments).count(None)}Q").pack_into
        start = ctypes.addressof(self.values)
        places = (start + 8 * slots.index(i) for i in range(len(slots)))
        self.places = (ctypes.c_void_p * len(slots))(*places)
        self.addresses = ctypes.addressof(self.places)

    def __call__(self, stream: int, *pointers: int) -> None:
        """Launch on ``stream``; raises RuntimeError where the driver refuses."""
        if stream != self.stream:
            self.config.hStream = self.stream = stream
        self.write(self.values, 0, *pointers)
        (error,) = driver.cuLaunchKernelEx(self.config, self.function, self.addresses, 0)
        if error != SUCCESS:
            checked((error,), "a launch")


def _attribute(name: str) -> Any:
    made = driver.CUlaunchAttribute()
    made.id = getattr(driver.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
    return made


class _Thread(threading.local):
    """What a thread has: the GPU that is current to its driver, and its launches."""

    device = -1

    def __init__(self) -> None:
        self.launches: dict[Any, Launch] = {}


THREAD = _Thread()


def make_current(device: int) -> None:
    """Make torch's current GPU the driver's too, which in a new thread has none."""
    if THREAD.device != device:
        Device(device).set_current()
        THREAD.device = device


def known(device: int, key: Any) -> Launch | None:
    """What was prepared for ``key`` in this thread, if the GPU is current and nothing is to do."""
    # torch's own Python functions for the device and the stream take longer than all else here.
    if THREAD.device == device == torch._C._cuda_getDevice():
        return THREAD.launches.get(key)
    return None


def launch(device: int, key: Any, prepare: Callable[[], Launch], *pointers: int) -> None:
    """Launch what ``prepare`` makes for ``key`` on the GPU's current stream.

    ``prepare`` is asked once a thread for a key, with the GPU current.
    """
    if torch._C._cuda_getDevice() != device:
        with torch.cuda.device(device):
            return launch(device, key, prepare, *pointers)
    make_current(device)
    launches = THREAD.launches
    ready = launches.get(key)
    if ready is None:
        if len(launches) == KEPT:
            launches.clear()
        with relaxed():
            ready = launches[key] = prepare()
    ready(torch._C._cuda_getCurrentRawStream(device), *pointers)
    return None
