"""Compile what a sweep will run, in parallel, so that its blocks find everything in caches.

python -m experiments.warm --sweep vocab_scaling --mode full
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from experiments.sweeps import SWEEPS, Point
from kernels.build import cores
from kernels.registry import variant


def warm(task: tuple[list[Point], tuple[str, ...]]) -> None:
    """Call each variant once at each point, on memory that nobody reads.

    A failure is left for the block's check, which reports it with its reason.
    """
    import torch

    from kernels.launch import bind

    points, names = task
    for point in points:
        for name in names:
            if variant(name).refusal(point.dtype, point.cols):
                continue
            try:
                x = torch.zeros(
                    point.rows, point.cols, dtype=getattr(torch, point.dtype), device="cuda"
                )
                bind(name)(x, torch.empty_like(x))
                torch.cuda.synchronize()
            except Exception:
                continue
            finally:
                torch.cuda.empty_cache()


@contextmanager
def no_choices_kept() -> Iterator[None]:
    """Drop what Inductor's autotuning chose meanwhile.

    Processes that share the GPU time one another's kernels, and their choice would be kept for the
    blocks; a block, alone on the GPU, chooses for itself before it times anything.
    """
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    def choices() -> set[Path]:
        return set(Path(cache_dir()).rglob("*.best_config"))

    before = choices()
    try:
        yield
    finally:
        for path in choices() - before:
            path.unlink()


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
    spawn = multiprocessing.get_context("spawn")
    with no_choices_kept(), ProcessPoolExecutor(workers, spawn) as pool:
        list(pool.map(warm, tasks))
    print(f"{sweep_name}: {len(points)} points compiled in {workers} processes")


if __name__ == "__main__":
    typer.run(main)
