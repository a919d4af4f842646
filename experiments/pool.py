"""Processes that are forked from one that has imported torch and touched no GPU.

Importing it takes seconds; sixteen processes that do so for themselves at once take ten.
"""

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext
from multiprocessing.forkserver import ensure_running
from pathlib import Path

from kernels.build import cores
from kernels.registry import BY_NAME, variant


def forkserver(module: str, variants: Iterable[str]) -> ForkServerContext:
    """A context whose processes find ``module``, and what ``variants`` call, imported.

    Those imports start at once, beside whatever this process does meanwhile.
    """
    modules = [module]
    for v in map(variant, variants):
        if v.name == "torch_compile":
            # Otherwise Inductor's import counts GPUs through CUDA, which does not survive a fork.
            os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
            modules.append("torch._inductor.compile_fx")
        elif v.framework == "peers":  # one that is not installed is passed over
            modules.append(f"kernels.peers.{v.path.stem}")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(modules)
    ensure_running()
    return context


@contextmanager
def pool(device: str) -> Iterator[ProcessPoolExecutor]:
    """A process for each core, in which kernels are compiled and run side by side."""
    processes = forkserver("experiments.correctness", BY_NAME if device == "cuda" else ())
    with ProcessPoolExecutor(cores(), processes) as executor, _no_choices_kept():
        yield executor


@contextmanager
def _no_choices_kept() -> Iterator[None]:
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
