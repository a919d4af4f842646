"""How accurate is each variant, by kind of input?  Errors in units of the last place.

    python -m experiments.accuracy --device cuda --out accuracy.csv

A unit in the last place (ulp) of an exact result is the distance between the two numbers of the
output's type around it: half a unit is what rounding alone may cost.
"""

import os
import sys
from collections.abc import Iterator
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import torch
import typer
from torch import Tensor

from experiments.check import planted
from experiments.examine import GpuLost, attempt, blaming
from experiments.grids import ACCURACY_INPUTS, ACCURACY_SHAPES, ACCURACY_SMALL
from experiments.pool import pool
from experiments.sweeps import Point
from experiments.tables import ACCURACY, validated
from kernels.fingerprint import variant_sha256
from kernels.registry import DTYPES, VARIANTS, variant

INF = float("inf")


def inputs(rows: int, cols: int, dtype: torch.dtype, device: str) -> Iterator[tuple[str, Tensor]]:
    """Each kind of input (rows, cols) by name, rounded to ``dtype``."""
    for name, x in zip(ACCURACY_INPUTS, _inputs(rows, cols, dtype, device), strict=True):
        yield name, x.to(dtype)


def _inputs(rows: int, cols: int, dtype: torch.dtype, device: str) -> Iterator[Tensor]:
    """In the order of ACCURACY_INPUTS."""
    generator = torch.Generator(device).manual_seed(rows * cols)

    def normal() -> Tensor:
        return torch.empty(rows, cols, device=device).normal_(generator=generator)

    yield normal()
    yield planted(rows, cols, dtype, device, seed=1)
    yield normal() + 1e4
    yield torch.sinh(2 * normal())
    yield 1e-3 * normal()
    peaked = torch.zeros(rows, cols, device=device)
    peaked[torch.arange(rows), torch.arange(rows) * 7 % cols] = 30.0
    yield peaked
    masked = normal()
    masked[normal() > 0] = -INF
    masked[:, 0] = 0.0  # no row is masked throughout
    yield masked


def ulps(y: Tensor, exact: Tensor, of: Tensor | None = None) -> Tensor:
    """|y - exact| in units of the last place of ``exact`` (float64) in the type of ``y``.

    Or in those of ``of``, magnitudes whose sum is the exact result, since what cancels has no
    digits.  NaN for results below the smallest normal number of float32 and bfloat16: GPUs may
    flush them to zero.  Those of float16 are computed in float32 and rounded to its even steps.
    """
    kind, of = torch.finfo(y.dtype), exact if of is None else of
    unit = torch.ldexp(torch.full_like(of, kind.eps / 2), torch.frexp(of).exponent)
    error = (y.double() - exact).abs_().div_(unit.clamp_min_(kind.tiny * kind.eps))
    if y.dtype != torch.float16:
        error.masked_fill_(of < kind.tiny, torch.nan)
    return error


def report(name: str, dtype: str, device: str) -> list[dict[str, Any]]:
    """One row a (shape, kind of input) for variant ``name`` at ``dtype``.

    Raises GpuLost where the GPU does not answer any more.
    """
    rows, of_all = [], {"variant": name, "kernel_sha256": variant_sha256(variant(name))}
    for shape in ACCURACY_SHAPES if device == "cuda" else ACCURACY_SMALL:
        point = Point(dtype, *shape)
        for kind, x in inputs(*shape, getattr(torch, dtype), device):
            with blaming(f"{name} at {point}, {kind}"):
                found, reason = attempt(name, point, device, partial(_errors, name, x))
            found = found or {"status": "skipped", "reason": reason}
            rows.append({**of_all, **point._asdict(), "input": kind, **found})
    return rows


def _errors(name: str, x: Tensor) -> dict[str, Any]:
    from kernels.launch import load
    from kernels.outputs import TopK, empty_output, spoilt

    y = load(name)(x, spoilt(empty_output(variant(name), x)))
    exact, total = torch.softmax(x.double(), dim=1), 1.0
    if isinstance(y, TopK):
        (y, _), (exact, _) = y, exact.topk(variant(name).k, dim=1)
        total = exact.sum(dim=1)
    error = ulps(y, exact)
    finite = bool(y.isfinite().all())
    return {
        "status": "ok" if finite else "wrong",
        "reason": "" if finite else "NaN or infinity in the output",
        "max_ulps": float(error.nan_to_num(0.0, posinf=INF).max()),
        "mean_ulps": float(error.nanmean()),
        "row_sum_err": float((y.double().sum(dim=1) - total).abs().max()),
    }


def main(
    out: Annotated[Path, typer.Option(help="the report, a CSV")],
    device: Annotated[str, typer.Option(help="cuda or cpu")] = "cuda",
) -> None:
    """Write the report."""
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    names = [v.name for v in VARIANTS if not v.ceiling]
    with pool(device) as processes:
        try:
            reports = processes.map(report, *zip(*product(names, DTYPES, [device]), strict=True))
            table = pd.DataFrame(chain.from_iterable(reports))
        except GpuLost as lost:
            print(lost, file=sys.stderr)
            raise typer.Exit(1) from lost
    out.parent.mkdir(parents=True, exist_ok=True)
    validated(ACCURACY, table.reindex(columns=list(ACCURACY.columns))).to_csv(out, index=False)
    print(", ".join(f"{n} {status}" for status, n in table["status"].value_counts().items()))


if __name__ == "__main__":
    typer.run(main)
