"""Compile what the operators' cases will run, on all cores at once: blocks find it in caches.

python -m experiments.family.warm --mode full --out warm.csv
python -m experiments.family.warm --mode full --once topk_softmax --out once.csv

The second is for what a peer compiles once for all of an operator's cases: FlashInfer's top-k takes
a quarter of an hour, and no other operator shall wait for it.
"""

import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from experiments.family import OPERATORS, operator_of
from experiments.family.operator import BLOCKS, TORCH
from experiments.family.others import COPIES
from experiments.pool import pool
from experiments.warm import ONCE

COLUMNS = ["operator", "asked", "dtype", "cols", "implementation", "seconds"]
# What compiles nothing.
READY = (TORCH, "add", *COPIES)
# Operators that have something of ONCE.
WAITING = tuple(
    name
    for name, operator in OPERATORS.items()
    if any(each.name in ONCE for each in operator.implementations)
)


def first_calls(
    name: str, mode: str, number: int, device: str, once: bool
) -> list[tuple[str, float]]:
    """Seconds of the first call of every implementation that compiles, at one case.

    Of those of ONCE, or of all others.  A failure is left for the block's check, which reports it
    with its reason.
    """
    import torch

    operator, found = operator_of(name), []
    case = operator.in_mode(mode)[number]
    with suppress(Exception):  # also where an earlier call took the GPU from this process
        tensors = operator.tensors(case, device, 1)
        for each in operator.implementations:
            start = time.perf_counter()
            if each.name not in READY and (each.name in ONCE) == once:
                with suppress(Exception):
                    each.prepare(case, device)(*tensors)
                    if device == "cuda":
                        torch.cuda.synchronize()
                found.append((each.name, time.perf_counter() - start))
        del tensors
        if device == "cuda":
            torch.cuda.empty_cache()  # the other processes need it
    return found


def warm(mode: str, device: str, once: str | None = None) -> Iterator[dict[str, object]]:
    """A row for each first call of ``mode``, up to one that ends its process.

    Of what ``once``, one of WAITING, compiles once for all its cases; without it, of all else.
    """
    if once:
        asked = [(once, mode, 0, device, True)]
    else:
        asked = [
            (name, mode, number, device, False)
            for name, operator in OPERATORS.items()
            for number in range(len(operator.in_mode(mode)))
        ]
    with pool(device) as processes, suppress(BrokenProcessPool):
        made = processes.map(first_calls, *zip(*asked, strict=True))
        for (name, _, number, *_), calls in zip(asked, made, strict=True):
            case = OPERATORS[name].in_mode(mode)[number]
            for each, seconds in calls:
                values = name, case.asked, case.dtype, case.cols, each, round(seconds, 3)
                yield dict(zip(COLUMNS, values, strict=True))


def main(
    out: Annotated[Path, typer.Option(help="seconds by case and implementation, a CSV")],
    mode: Annotated[str, typer.Option(help="full, quick or smoke")] = "full",
    device: Annotated[str, typer.Option(help="cuda or cpu")] = "cuda",
    once: Annotated[str | None, typer.Option(help="an operator whose peer compiles once")] = None,
) -> None:
    """Call every implementation once at every case."""
    if mode not in BLOCKS:
        raise typer.BadParameter(f"unknown mode '{mode}'; known: {', '.join(BLOCKS)}")
    if once not in (None, *WAITING):
        raise typer.BadParameter(f"'{once}' has no such peer; known: {', '.join(WAITING)}")
    import pandas as pd  # not where the Snakefile asks for WAITING

    table = pd.DataFrame(list(warm(mode, device, once)), columns=COLUMNS)
    out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(out, index=False)
    print(f"{len(table)} first calls, {table['seconds'].sum():.0f} s in all processes together")


if __name__ == "__main__":
    typer.run(main)
