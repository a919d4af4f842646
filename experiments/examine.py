"""Run a variant at a point and check what it wrote: no number exists without this."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

from experiments.check import Reference, check_copy, planted
from experiments.sweeps import Point
from experiments.tables import useful_bytes
from experiments.timer import estimate_ns
from kernels.launch import Unavailable, load, tuned
from kernels.outputs import Output, empty_output, spoilt
from kernels.registry import Variant, variant

T = TypeVar("T")
COMPLAINT = re.compile(r"\berror\b", re.IGNORECASE)
FOLDERS = re.compile(r"(?<![\w/])/(?:[^\s/:'\"]+/)+")


class GpuLost(RuntimeError):
    """The GPU stopped answering: nothing in this process can go on."""


@dataclass(frozen=True)
class Outcome:
    """What checking a variant at a point gave."""

    status: str
    reason: str = ""
    max_rel_err: float = float("nan")
    estimate_ns: float = float("nan")
    tuned: str = ""  # what the variant's autotuning chose


class Problem:
    """A point's input and outputs, and what these should be: made once for all variants."""

    def __init__(self, point: Point, device: str, seed: int) -> None:
        self.point, self.device, self._seed = point, device, seed
        self._made: tuple[Reference, dict[int, Output]] | None = None

    def forget(self) -> None:
        """Make everything anew for the next variant."""
        self._made = None

    def fresh(self, v: Variant) -> tuple[Reference, Output]:
        """The reference, which holds the input, and an output of ``v`` that is NaN throughout."""
        if self._made is None:
            dtype = getattr(torch, self.point.dtype)
            x = planted(self.point.rows, self.point.cols, dtype, self.device, self._seed)
            self._made = Reference(x), {}
        reference, outputs = self._made
        if v.k not in outputs:
            outputs[v.k] = empty_output(v, reference.x)
        return reference, spoilt(outputs[v.k])


def examine(name: str, problem: Problem) -> Outcome:
    """Compile, run and check variant ``name`` on ``problem``.

    Raises GpuLost where the GPU does not answer any more.
    """
    outcome, reason = attempt(name, problem.point, problem.device, lambda: _checked(name, problem))
    return outcome or Outcome("skipped", reason)


def _checked(name: str, problem: Problem) -> Outcome:
    fn, v = load(name), variant(name)
    try:
        reference, y = problem.fresh(v)
        x = reference.x
        fn(x, y)
        choice = tuned(name)
        verdict = check_copy(x, y) if v.ceiling else reference.check(y)
        if not reference.unchanged():
            problem.forget()
            return Outcome("wrong", "it changed its input", verdict.max_rel_err)
        if not verdict.ok:
            return Outcome("wrong", verdict.reason, verdict.max_rel_err)
        estimate = estimate_ns(fn, (x, y)) if problem.device == "cuda" else 0.0
        return Outcome("ok", "", verdict.max_rel_err, estimate, choice)
    except Exception:
        problem.forget()  # who knows what was written
        raise


def attempt(name: str, point: Point, device: str, run: Callable[[], T]) -> tuple[T | None, str]:
    """What ``run`` gives of variant ``name`` at ``point``, or None and why it gives nothing.

    Raises GpuLost where the GPU does not answer any more.
    """
    if refusal := variant(name).refusal(point.dtype, point.cols, device):
        return None, refusal
    try:
        return run(), ""
    except Unavailable as error:
        return None, str(error)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return None, memory_reason(point, name)
    except Exception as error:  # compilers and drivers raise types of their own
        raise_if_lost(error, device)
        return None, reason_of(error)


def raise_if_lost(error: Exception, device: str) -> None:
    """Raise GpuLost if the GPU does not answer after ``error``."""
    if device != "cuda":
        return
    try:
        torch.cuda.synchronize()
    except Exception as lost:
        raise GpuLost(_first_line(error)) from lost


@contextmanager
def blaming(what: str) -> Iterator[None]:
    """Say that a GPU which is lost meanwhile was lost in ``what``, and what to do about it."""
    try:
        yield
    except GpuLost as lost:
        raise GpuLost(
            f"the GPU stopped answering in {what}: {lost}; mend the variant, or take it out of "
            "kernels/registry.py"
        ) from lost


def reason_of(error: Exception) -> str:
    """An error's type and first line; where that announces a tool's output, what that complains of.

    Folders are left out: they are those of a machine.
    """
    first, *output = str(error).strip().splitlines() or [type(error).__name__]
    complaint = next((line for line in output if COMPLAINT.search(line)), "")
    said = f"{first} {complaint}" if first.endswith(":") else first
    return FOLDERS.sub("", f"{type(error).__name__}: {said}".strip())


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def memory_reason(point: Point, name: str = "") -> str:
    need = useful_bytes(point.rows, point.cols, point.dtype, name) / 2**30
    free = torch.cuda.mem_get_info()[0] / 2**30
    return (
        f"out of device memory: input and output take {need:.2f} GiB before any intermediate, "
        f"{free:.2f} GiB are free"
    )
