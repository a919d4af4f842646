"""A pool of processes, one a core, in which kernels are compiled and run side by side."""

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from kernels.build import cores


@contextmanager
def pool(device: str) -> Iterator[ProcessPoolExecutor]:
    """The pool, for as long as the context lasts.

    Its processes are forked from one that has imported torch and touched no GPU: sixteen that
    import it for themselves at once take ten seconds.
    """
    # Otherwise Inductor's import counts GPUs through CUDA, which does not survive a fork.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    imports = ["experiments.correctness"]
    if device == "cuda":
        imports.append("torch._inductor.compile_fx")
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(imports)
    with ProcessPoolExecutor(cores(), forkserver) as executor:
        executor.submit(os.getpid)  # its imports overlap with this process's
        with _no_choices_kept():
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
