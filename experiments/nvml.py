"""Clocks, power, temperature and throttling beside the timing, read through NVML.

The card's settings are read, never changed.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pynvml

PERIOD_S = 0.02
# Reasons that slow a busy GPU.  Idle (0x1) and application-clock settings (0x2) do not count.
SLOWING = 0x4 | 0x8 | 0x20 | 0x40 | 0x80


@dataclass(frozen=True)
class Reading:
    """One look at the GPU: MHz, watts, degrees Celsius, bit mask, count."""

    sm_clock_mhz: float = float("nan")
    mem_clock_mhz: float = float("nan")
    power_w: float = float("nan")
    temp_c: float = float("nan")
    throttle_mask: float = float("nan")
    other_processes: float = float("nan")


class Sampler:
    """Reads one GPU every 20 ms on a thread of its own; ``latest`` is the newest reading."""

    def __init__(self, uuid: str) -> None:
        pynvml.nvmlInit()
        # By its name: CUDA_VISIBLE_DEVICES renumbers CUDA's devices and not NVML's.
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        self._held = threading.Lock()
        self._stop = threading.Event()
        self.latest = self._read()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @contextmanager
    def held(self) -> Iterator[None]:
        """No readings meanwhile: they would take the interpreter from a host-side timer."""
        with self._held:
            yield

    def _loop(self) -> None:
        while not self._stop.is_set():
            with self._held:
                self.latest = self._read()
            time.sleep(PERIOD_S)

    def _read(self) -> Reading:
        gpu = self._handle
        return Reading(
            _ask(pynvml.nvmlDeviceGetClockInfo, gpu, pynvml.NVML_CLOCK_SM),
            _ask(pynvml.nvmlDeviceGetClockInfo, gpu, pynvml.NVML_CLOCK_MEM),
            _ask(pynvml.nvmlDeviceGetPowerUsage, gpu) / 1000,
            _ask(pynvml.nvmlDeviceGetTemperature, gpu, pynvml.NVML_TEMPERATURE_GPU),
            _ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons, gpu),
            self._others(),
        )

    def _others(self) -> float:
        try:
            running = pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        except pynvml.NVMLError:
            return float("nan")
        return float(sum(p.pid != os.getpid() for p in running))


def _ask(query, *args: object) -> float:
    """What NVML answers, or NaN where this GPU does not report it."""
    try:
        return float(query(*args))
    except pynvml.NVMLError:
        return float("nan")
