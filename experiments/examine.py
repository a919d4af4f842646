"""Run a variant at a point and check what it wrote: no number exists without this."""

from dataclasses import dataclass

import torch

from experiments.check import check, check_copy, planted
from experiments.sweeps import Point
from experiments.tables import useful_bytes
from experiments.timer import estimate_ns
from kernels.launch import Unavailable, bind
from kernels.registry import variant


class GpuLost(RuntimeError):
    """The GPU stopped answering: nothing in this process can go on."""


@dataclass(frozen=True)
class Outcome:
    """What checking a variant at a point gave."""

    status: str
    reason: str = ""
    max_rel_err: float = float("nan")
    estimate_ns: float = float("nan")


def examine(name: str, point: Point, device: str, seed: int) -> Outcome:
    """Compile, run and check variant ``name`` at ``point``.

    Raises GpuLost where the GPU does not answer any more.
    """
    v = variant(name)
    if refusal := v.refusal(point.dtype, point.cols, device):
        return Outcome("skipped", refusal)
    try:
        fn = bind(name)
        x = planted(point.rows, point.cols, getattr(torch, point.dtype), device, seed)
        # NaN everywhere first, so that an element nobody writes is seen.
        y = torch.full_like(x, float("nan"))
        fn(x, y)
        verdict = (check_copy if v.ceiling else check)(x, y)
        if not verdict.ok:
            return Outcome("wrong", verdict.reason, verdict.max_rel_err)
        estimate = estimate_ns(fn, (x, y)) if device == "cuda" else 0.0
        return Outcome("ok", "", verdict.max_rel_err, estimate)
    except Unavailable as error:
        return Outcome("skipped", str(error))
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return Outcome("skipped", memory_reason(point))
    except Exception as error:  # compilers and drivers raise types of their own
        raise_if_lost(error, device)
        return Outcome("skipped", f"{type(error).__name__}: {_first_line(error)}")


def raise_if_lost(error: Exception, device: str) -> None:
    """Raise GpuLost if the GPU does not answer after ``error``."""
    if device != "cuda":
        return
    try:
        torch.cuda.synchronize()
    except Exception as lost:
        raise GpuLost(_first_line(error)) from lost


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def memory_reason(point: Point) -> str:
    need = useful_bytes(point.rows, point.cols, point.dtype) / 2**30
    free = torch.cuda.mem_get_info()[0] / 2**30
    return (
        f"out of device memory: input and output take {need:.2f} GiB before any intermediate, "
        f"{free:.2f} GiB are free"
    )
