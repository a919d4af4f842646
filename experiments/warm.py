"""Compile what the sweeps will run, so that their blocks find everything in caches."""

import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import suppress
from itertools import chain

from experiments.sweeps import SWEEPS, Point
from kernels.registry import variant

# What compiles anew for every number of rows; and once for all shapes, for two minutes.
PER_SHAPE, ONCE = ("torch_compile", "triton_constant"), ("flashinfer",)


def build(name: str, device: str) -> None:
    """Compile variant ``name`` of ONCE; a failure is left for its check."""
    import torch

    from kernels.launch import load

    with suppress(Exception):
        x = torch.zeros(1, 1024, device=device)
        load(name)(x, torch.empty_like(x))


def warm(points: Mapping[Point, tuple[str, ...]]) -> Mapping[str, float]:
    """Call each point's variants once, on memory that nobody reads; seconds by variant.

    A failure is left for the block's check, which reports it with its reason.
    """
    import torch

    from kernels.launch import load
    from kernels.outputs import empty_output

    seconds = dict.fromkeys(chain.from_iterable(points.values()), 0.0)
    for point, names in points.items():
        with suppress(torch.OutOfMemoryError):
            dtype = getattr(torch, point.dtype)
            x = torch.zeros(point.rows, point.cols, dtype=dtype, device="cuda")
            for name in names:
                start = time.perf_counter()
                with suppress(Exception):
                    load(name)(x, empty_output(variant(name), x))
                    torch.cuda.synchronize()
                seconds[name] += time.perf_counter() - start
            # Other processes need the memory; after each call, the next would map it anew.
            del x
        torch.cuda.empty_cache()
    return seconds


def points(mode: str) -> dict[Point, tuple[str, ...]]:
    """Every point of the GPU's sweeps in ``mode``, and the variants that compile for it."""
    found: dict[Point, set[str]] = {}
    for sweep in SWEEPS.values():
        if "host" in sweep.timers:
            continue
        for point in sweep.points(mode):
            names = {n for n in sweep.variants if _compiles(n, point)}
            found.setdefault(point, set()).update(names)
    return {point: tuple(sorted(names)) for point, names in found.items() if names}


def _compiles(name: str, point: Point) -> bool:
    v = variant(name)
    if name in ONCE:
        return False
    jit = v.framework in ("triton", "frontier", "peers") or name == "torch_compile"
    return jit and v.refusal(point.dtype, point.cols) is None


def _tasks(found: Mapping[Point, tuple[str, ...]]) -> list[dict[Point, tuple[str, ...]]]:
    """``found`` in parts, each for one process, those first that take longest."""
    shapes, widths = {}, {}
    for point, names in found.items():
        alone = tuple(name for name in names if name in PER_SHAPE)
        shapes[point] = {point: alone} if alone else {}
        # Rows of one width share most of what else is compiled, so one process takes all of them.
        if shared := tuple(name for name in names if name not in PER_SHAPE):
            widths.setdefault((point.dtype, point.cols), {})[point] = shared
    wide_first = sorted(shapes, key=lambda point: -point.cols)
    most_first = sorted(widths.values(), key=lambda task: -sum(map(len, task.values())))
    return [task for task in (*(shapes[point] for point in wide_first), *most_first) if task]


def warm_all(processes: Executor, mode: str) -> str:
    """Warm every point of ``mode``; says how many, and what took how long."""
    found = points(mode)
    tasks = _tasks(found)
    start = time.perf_counter()
    seconds: Counter[str] = Counter()
    for of_task in processes.map(warm, tasks):
        seconds.update(of_task)  # adds
    took = time.perf_counter() - start
    shares = ", ".join(f"{name} {s:.0f} s" for name, s in seconds.most_common() if s >= 1)
    return f"compiled for {len(found)} points in {took:.0f} s; of the processes' time: {shares}"
