"""Where there is no GPU, Triton interprets its kernels on the CPU."""

import os

import torch

# Triton reads this when a kernel is defined, so it must stand before the first kernel's import.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
