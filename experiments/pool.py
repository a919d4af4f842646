"""Processes that are forked from one that has imported torch and touched no GPU.

Importing it takes seconds; sixteen processes that do so for themselves at once take ten.
"""

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext
from multiprocessing.forkserver import ensure_running
from pathlib import Path

from kernels.build import cores


def forkserver(*modules: str, inductor: bool) -> ForkServerContext:
    """A context whose processes find ``modules``, and torch.compile's, imported.

    Those imports start at once, beside whatever this process does meanwhile.  Not those of the
    peers: CuTe DSL's, for one, initialises CUDA, which does not survive a fork.
    """
    if inductor:
        # Otherwise Inductor's import counts GPUs through CUDA.
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        modules = (*modules, "torch._inductor.compile_fx")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    ensure_running()
    return context


@contextmanager
def pool(device: str, spare: int = 0) -> Iterator[ProcessPoolExecutor]:
    """A process for each core but ``spare``, in which kernels are compiled and run side by side."""
    inductor = device == "cuda"
    processes = forkserver("experiments.correctness", inductor=inductor)
    first = _take_the_first_choice if inductor else None
    count = max(1, cores() - spare)
    with ProcessPoolExecutor(count, processes, first) as executor, _no_choices_kept():
        try:
            yield executor
        except BaseException:  # nobody waits for what is still to come
            executor.shutdown(cancel_futures=True)
            raise


def _take_the_first_choice() -> None:
    """Let Inductor compile all that it may choose from, and time none of it.

    Timing takes the GPU for itself, one process after another: most of the pool's time.
    """
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    CachingAutotuner.bench = lambda *_, **__: 1.0


@contextmanager
def _no_choices_kept() -> Iterator[None]:
    """Drop what Inductor chose meanwhile without timing it.

    It would be kept for the blocks; a block, alone on the GPU, chooses for itself before it times
    anything.
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
