"""Compile what the sweeps will run, so that their blocks find everything in caches."""

from concurrent.futures import Executor

from experiments.sweeps import SWEEPS, Point
from kernels.registry import variant


def warm(point: Point, names: tuple[str, ...]) -> None:
    """Call each variant once at ``point``, on memory that nobody reads.

    A failure is left for the block's check, which reports it with its reason.
    """
    import torch

    from kernels.launch import load

    for name in names:
        try:
            x = torch.zeros(
                point.rows, point.cols, dtype=getattr(torch, point.dtype), device="cuda"
            )
            load(name)(x, torch.empty_like(x))
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
    jit = v.framework in ("triton", "peers") or name == "torch_compile"
    return jit and v.refusal(point.dtype, point.cols) is None


def warm_all(processes: Executor, mode: str) -> str:
    """Warm every point of ``mode``; says how many."""
    # The largest first: they take longest.
    tasks = sorted(points(mode).items(), key=lambda task: -task[0].rows * task[0].cols)
    list(processes.map(warm, *zip(*tasks, strict=True)))
    return f"compiled for {len(tasks)} points"
