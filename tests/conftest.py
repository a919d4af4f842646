"""Where there is no GPU, Triton interprets its kernels on the CPU; a worker has one thread."""

import os

# Workers share the cores out: threads of torch would wait for one another, two thirds of the time.
# It stands before torch's import, and goes for the commands that tests run too.  A job of Snakemake
# tells all of them that each has all cores.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"

import torch

# Torch has read that once: where a plugin of pytest imported it before, it has to be told.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)

# Triton reads this when a kernel is defined, so it must stand before the first kernel's import.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
