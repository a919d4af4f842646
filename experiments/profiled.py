"""What runs under ncu: variants at a few places, checked, and then called once to be watched.

Each call stands in an NVTX range of its own.  It is not the first: the check before it compiles.

    python -m experiments.profiled --out outcomes.csv
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pandas as pd
import torch
import typer

from experiments.check import Reference
from experiments.counts import watched
from experiments.examine import GpuLost, Outcome, Problem, examine, raise_if_lost
from experiments.layout import BY_NAME, CONTIGUOUS, Place
from experiments.ncu import label
from experiments.placed import placed
from kernels.launch import load
from kernels.outputs import Output
from kernels.registry import Variant, variant

# The slowest published kernel takes 0.025 s a call at these points on an H200 (vocab_scaling):
# what comes near either limit is something else.
CALL_LIMIT_NS = 1e9
# A kernel is replayed until all is counted, and what it wrote restored each time: up to 8 GB.
BUDGET_S = 900.0


class Placed(Problem):
    """The problem at ``place``, of rows as its layout has them: for variants that take strides."""

    def __init__(self, place: Place, device: str, seed: int) -> None:
        super().__init__(place.point, device, seed)
        self.layout = BY_NAME[place.layout]

    def fresh(self, v: Variant) -> tuple[Reference, Output]:
        """As a problem's."""
        if self._made is None:
            dtype, rows, cols = self.point
            shape = rows, cols, getattr(torch, dtype)
            tensors = placed(self.layout, *shape, self.device, self._seed)
            self._made = Reference(tensors.x), {0: tensors.out}
        return super().fresh(v)


def problem_at(place: Place, device: str, seed: int) -> Problem:
    """The problem at ``place``."""
    if place.layout == CONTIGUOUS:
        return Problem(place.point, device, seed)
    return Placed(place, device, seed)


def watch(name: str, problem: Problem) -> None:
    """Call variant ``name`` once, in its range, with the profiler on."""
    layout = problem.layout.name if isinstance(problem, Placed) else CONTIGUOUS
    reference, out = problem.fresh(variant(name))
    softmax, place = load(name), Place(*problem.point, layout)
    in_range(label(name, place), lambda: softmax(reference.x, out))


def in_range(label: str, call: Callable[[], object]) -> None:
    """Call ``call`` once, in the NVTX range ``label``, with the profiler on.

    The range is this thread's, and a backward pass launches from a thread of autograd's own unless
    it is told otherwise: ncu would see its kernels outside of the range.
    """
    torch.cuda.synchronize()
    with (
        torch.autograd.set_multithreading_enabled(False),
        torch.cuda.profiler.profile(),
        torch.cuda.nvtx.range(label),
    ):
        call()
        torch.cuda.synchronize()


def outcome(name: str, problem: Problem, seconds_left: float) -> Outcome:
    """Check variant ``name`` on ``problem``, and watch it unless it is wrong or too slow."""
    if seconds_left < 0:
        return Outcome("skipped", f"the profile's {BUDGET_S:g} s were over")
    found = examine(name, problem)
    if found.status != "ok":
        return found
    if found.estimate_ns > CALL_LIMIT_NS:
        limit = f"the limit of a profile is {CALL_LIMIT_NS / 1e9:g} s"
        return Outcome("skipped", f"too slow: {found.estimate_ns / 1e9:.2g} s a call, {limit}")
    try:
        watch(name, problem)
    except Exception as error:  # compilers and drivers raise types of their own
        raise_if_lost(error, problem.device)
        return Outcome("skipped", f"{type(error).__name__}: {error}")
    return found


def main(
    out: Annotated[Path, typer.Option(help="a row a variant and place: status and reason")],
    seed: Annotated[int, typer.Option(help="inputs follow from it")] = 1,
) -> None:
    """Call what is watched at every place; ncu watches from outside."""
    rows = []
    end = time.monotonic() + BUDGET_S
    for place, names in watched().items():
        problem = problem_at(place, "cuda", seed)
        for name in names:
            try:
                found = outcome(name, problem, end - time.monotonic())
            except GpuLost as lost:
                print(f"the GPU stopped answering at {name} {place}: {lost}")
                raise typer.Exit(1) from lost
            rows.append(
                {
                    "variant": name,
                    **place._asdict(),
                    "status": found.status,
                    "reason": found.reason,
                }
            )
        del problem  # its memory goes back before the next is made
        torch.cuda.empty_cache()
    pd.DataFrame(rows).to_csv(out, index=False)


if __name__ == "__main__":
    typer.run(main)
