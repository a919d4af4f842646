"""Run an implementation at a case, or say why it gives nothing."""

from collections.abc import Callable
from typing import TypeVar

import torch

from experiments.examine import raise_if_lost, reason_of
from experiments.family.operator import Case, Refused
from kernels.launch import Unavailable

T = TypeVar("T")


def attempt(case: Case, device: str, run: Callable[[], T]) -> tuple[T | None, str]:
    """What ``run`` gives at ``case``, or None and why it gives nothing.

    Raises GpuLost where the GPU does not answer any more.
    """
    try:
        return run(), ""
    except (Refused, Unavailable) as error:
        return None, str(error)
    except ImportError as error:
        return None, f"it needs what is not installed: {error}"
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return None, out_of_memory(case)
    except Exception as error:  # compilers and drivers raise types of their own
        raise_if_lost(error, device)
        return None, reason_of(error)


def out_of_memory(case: Case) -> str:
    return f"out of device memory: the input alone takes {case.tensor_bytes / 2**30:.2f} GiB"
