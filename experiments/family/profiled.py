"""What runs under ncu: operators at a few cases, checked as they are before times are taken.

Each call is then watched once, in an NVTX range of its own.

    python -m experiments.family.profiled --out outcomes.csv
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import torch
import typer
from torch import Tensor

from experiments.examine import GpuLost
from experiments.family.attempt import attempt
from experiments.family.block import Block
from experiments.family.counts import IMPLEMENTATIONS, WATCHED, Watched, label
from experiments.profiled import BUDGET_S, in_range


def outcomes(
    operator: str, number: int, seed: int, end: float, device: str = "cuda"
) -> Iterator[dict[str, Any]]:
    """Status and reason of each implementation at case ``number``, watched where it is right.

    After ``end`` (time.monotonic) nothing more is run.  Raises GpuLost.
    """
    block = Block(operator, "full", 0, seed, device)
    case = WATCHED[operator][number]
    tensors, why = attempt(case, device, lambda: block.operator.tensors(case, device, seed))
    for name in IMPLEMENTATIONS:
        call, status, reason = Watched(operator, name, number), "skipped", why
        if time.monotonic() > end:
            reason = f"the profile's {BUDGET_S:g} s were over"
        elif tensors is not None:
            try:
                status, reason = outcome(call, block, tensors)
            except GpuLost as lost:
                raise GpuLost(f"{name}: {lost}") from lost
        yield {**call._asdict(), "status": status, "reason": reason}


def outcome(call: Watched, block: Block, tensors: tuple[Tensor, ...]) -> tuple[str, str]:
    """Check ``call`` on ``tensors``, and watch it unless it is wrong or too slow: status, reason.

    Raises GpuLost.
    """
    (each,) = (e for e in block.operator.implementations if e.name == call.implementation)
    found = block.examine(each, call.case, tensors)
    if found.call is None:
        return found.status, found.reason
    function = found.call

    def watch() -> None:
        given = block.given(each, tensors)
        in_range(label(call), lambda: function(*given))

    _, reason = attempt(call.case, block.device, watch)
    return "skipped" if reason else "ok", reason


def main(
    out: Annotated[Path, typer.Option(help="a row an implementation and case: status and reason")],
    seed: Annotated[int, typer.Option(help="inputs follow from it")] = 1,
) -> None:
    """Call what is watched of every operator; ncu watches from outside."""
    rows = []
    end = time.monotonic() + BUDGET_S
    for operator, cases in WATCHED.items():
        for number in range(len(cases)):
            try:
                rows += outcomes(operator, number, seed, end)
            except GpuLost as lost:
                print(f"the GPU stopped answering at {operator}, {cases[number]}: {lost}")
                raise typer.Exit(1) from lost
            torch.cuda.empty_cache()  # tensors are gone by now
    pd.DataFrame(rows).to_csv(out, index=False)


if __name__ == "__main__":
    typer.run(main)
