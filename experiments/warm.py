"""Compile what a sweep will run, in parallel, so that its blocks find everything in caches.

python -m experiments.warm --sweep vocab_scaling --mode full
"""

from typing import Annotated

import typer

from experiments.pool import pool
from experiments.sweeps import SWEEPS, Point
from kernels.build import cores
from kernels.registry import variant


def warm(task: tuple[list[Point], tuple[str, ...]]) -> None:
    """Call each variant once at each point, on memory that nobody reads.

    A failure is left for the block's check, which reports it with its reason.
    """
    import torch

    from kernels.launch import load

    points, names = task
    for point in points:
        for name in names:
            if variant(name).refusal(point.dtype, point.cols):
                continue
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


def main(
    sweep_name: Annotated[str, typer.Option("--sweep")],
    mode: Annotated[str, typer.Option()],
) -> None:
    """Compile in as many processes as there are cores."""
    workers = cores()
    if sweep_name not in SWEEPS:
        raise typer.BadParameter(f"unknown sweep '{sweep_name}'; known: {', '.join(SWEEPS)}")
    chosen = SWEEPS[sweep_name]
    compiling = tuple(n for n in chosen.variants if n == "torch_compile" or "triton" in n)
    # The largest points first and dealt out in turn: no process holds all of them.
    points = sorted(chosen.points(mode), key=lambda p: -p.rows * p.cols)
    tasks = [(points[i::workers], compiling) for i in range(workers)]
    with pool("cuda") as processes:
        list(processes.map(warm, tasks))
    print(f"{sweep_name}: {len(points)} points compiled in {workers} processes")


if __name__ == "__main__":
    typer.run(main)
