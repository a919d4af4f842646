"""A kernel that has the GPU when others come, and waiting that ends."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, ObjectCode, Stream, launch

from kernels.cuda_compiler import program
from kernels.launch import architecture

PATIENCE_S = 60.0
CYCLES = 4_000_000_000  # two seconds


class Neighbour:
    """A kernel that holds the shared memory of so many multiprocessors until it is stopped."""

    def __init__(self, blocks: int) -> None:
        self.stream = torch.cuda.Stream()
        self.stop = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self.started = torch.zeros(blocks, dtype=torch.int32, pin_memory=True)
        file = Path(__file__).with_name("neighbour.cu")
        cubin, symbols, _ = program(file, architecture(), ["neighbour"])
        Device(0).set_current()
        self.kernel = ObjectCode.from_cubin(cubin).get_kernel(symbols["neighbour"])
        most = torch.cuda.get_device_properties(0).shared_memory_per_block_optin
        name = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        (error,) = driver.cuKernelSetAttribute(name, most, int(self.kernel.handle), 0)
        assert error == driver.CUresult.CUDA_SUCCESS
        self.config = LaunchConfig(grid=blocks, block=32, shmem_size=most)
        torch.cuda.synchronize()

    def start(self) -> None:
        stream: Any = Stream.from_handle(self.stream.cuda_stream)
        arguments = (self.stop.data_ptr(), self.started.data_ptr(), CYCLES)
        launch(stream, self.config, self.kernel, *arguments)

    def has_started(self) -> bool:
        return bool(self.started.all())

    def end(self) -> None:
        self.stop.fill_(1)


def done_within(seconds: float, done: Callable[[], bool]) -> bool:
    """Whether it was ``done`` before so many seconds had passed."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


def wait_for(done: Callable[[], bool]) -> None:
    """End the tests where a GPU that hangs would never end them."""
    if not done_within(PATIENCE_S, done):
        pytest.exit(f"the GPU was not done after {PATIENCE_S:g} s: a deadlock", returncode=1)


def beside_a_neighbour(blocks: int, launch: Callable[[], object]) -> None:
    """Return once ``launch`` is done, on a stream of its own, which a neighbour came before."""
    mine, neighbour = torch.cuda.Stream(), Neighbour(blocks)
    neighbour.start()
    wait_for(neighbour.has_started)
    with torch.cuda.stream(mine):
        launch()
        done = torch.cuda.Event()
        done.record()
    neighbour.end()
    wait_for(done.query)
    torch.cuda.synchronize()
