"""Compile what the sweeps will run, so that their blocks find everything in caches."""

from collections.abc import Mapping
from concurrent.futures import Executor

from experiments.sweeps import SWEEPS, Point
from kernels.registry import variant


def warm(points: Mapping[Point, tuple[str, ...]]) -> None:
    """Call each point's variants once, on memory that nobody reads.

    A failure is left for the block's check, which reports it with its reason.
    """
    import torch

    from kernels.launch import load
    from kernels.outputs import empty_output

    for point, name in ((p, n) for p, names in points.items() for n in names):
        try:
            x = torch.zeros(
                point.rows, point.cols, dtype=getattr(torch, point.dtype), device="cuda"
            )
            load(name)(x, empty_output(variant(name), x))
            torch.cuda.synchronize()
        except Exception:
            continue
        finally:
            torch.cuda.empty_cache()


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
    jit = v.framework in ("triton", "frontier", "peers") or name == "torch_compile"
    return jit and v.refusal(point.dtype, point.cols) is None


def warm_all(processes: Executor, mode: str) -> str:
    """Warm every point of ``mode``; says how many."""
    found = points(mode)
    # Rows of one width share most of what is compiled, so one process takes all of them.
    widths: dict[tuple[str, int], dict[Point, tuple[str, ...]]] = {}
    for point, names in found.items():
        widths.setdefault((point.dtype, point.cols), {})[point] = names
    # The most calls first: they take longest.
    tasks = sorted(widths.values(), key=lambda task: -sum(map(len, task.values())))
    list(processes.map(warm, tasks))
    return f"compiled for {len(found)} points"
