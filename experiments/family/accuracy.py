"""How accurate is each operator, ours and torch's, by kind of input?  Errors in ulps.

    python -m experiments.family.accuracy --out family/accuracy.csv
    python -m experiments.family.accuracy --device cpu --out accuracy.csv   # torch's on both sides

As experiments/accuracy.py, of inputs of the same kinds: compared with float64 of the rounded input.
Where terms cancel, a unit is that of the magnitudes that are summed; of a logarithm or a loss near
0 it is that of 1.  Of `sample`, ours alone, an error is what a token's noisy logit lacks of the
largest, in units of float32.  `calls` has no row: its functions are those of other operators.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import torch
import typer
from torch import Tensor

from experiments.accuracy import INF, inputs, ulps
from experiments.examine import GpuLost
from experiments.family import OPERATORS
from experiments.family.attempt import attempt
from experiments.family.fingerprint import sha256_of
from experiments.family.operator import Accuracy, Case, Implementation
from experiments.family.tables import ACCURACY
from experiments.hardware import commit
from experiments.pool import pool
from experiments.tables import validated
from kernels.registry import DTYPES

JUDGED = {name: each.accuracy for name, each in OPERATORS.items() if each.accuracy}
SEED = 1


def report(name: str, dtype: str, device: str) -> list[dict[str, Any]]:
    """A row for each case, kind of input and implementation of operator ``name`` in ``dtype``.

    Raises GpuLost where the GPU does not answer any more.
    """
    judged, rows = JUDGED[name], []
    some = [each for each in OPERATORS[name].implementations if each.name in judged.implementations]
    for case in judged.cases if device == "cuda" else judged.small:
        case = replace(case, dtype=dtype)
        for kind, tensors in given(judged, case, device):
            exact, of = judged.exact(case, tensors)
            for each in some:
                run = partial(result, judged, each, case, device, tensors)
                y, reason = attempt(case, device, run)
                found = (
                    {"status": "skipped", "reason": reason} if y is None else errors(y, exact, of)
                )
                rows.append({
                    "operator": name, "implementation": each.name, **case.columns, "input": kind,
                    **found, "kernel_sha256": sha256_of(name),
                })  # fmt: skip
    return rows


def given(judged: Accuracy, case: Case, device: str) -> Iterator[tuple[str, tuple[Tensor, ...]]]:
    """The operator's tensors from each kind of input that makes sense, by its name."""
    cols = judged.cols(case)
    rows = case.rows if cols == case.cols else case.tensor_bytes // case.size // cols
    for kind, x in inputs(rows, cols, getattr(torch, case.dtype), device):
        if kind not in judged.but:
            yield kind, judged.given(case, x, SEED)


def result(
    judged: Accuracy, each: Implementation, case: Case, device: str, tensors: tuple[Tensor, ...]
) -> Tensor:  # fmt: skip
    """What is compared of what ``each`` gives."""
    found = each.prepare(case, device)(*(t.clone() for t in tensors))
    if device == "cuda":
        torch.cuda.synchronize()
    return judged.compared(case, tensors, found)


def errors(y: Tensor, exact: Tensor, of: Tensor) -> dict[str, Any]:
    """The largest and the mean error of ``y``, which is infinite where it has to be."""
    infinite = (y.double() == exact) & exact.isinf()
    error = ulps(y, exact, of).masked_fill_(infinite, 0.0)
    good = bool((y.isfinite() | infinite).all())
    return {
        "status": "ok" if good else "wrong",
        "reason": "" if good else "NaN or infinity in what is compared",
        "max_ulps": float(error.nan_to_num(0.0, posinf=INF).max()),
        "mean_ulps": float(error.nanmean()),
    }


def main(
    out: Annotated[Path, typer.Option(help="the report, a CSV")],
    device: Annotated[str, typer.Option(help="cuda or cpu")] = "cuda",
) -> None:
    """Write the report."""
    with pool(device) as processes:
        try:
            asked = zip(*product(JUDGED, DTYPES, [device]), strict=True)
            table = pd.DataFrame(chain.from_iterable(processes.map(report, *asked)))
        except GpuLost as lost:
            print(lost, file=sys.stderr)
            raise typer.Exit(1) from lost
    table = table.assign(code_commit=commit()).reindex(columns=list(ACCURACY.columns))
    out.parent.mkdir(parents=True, exist_ok=True)
    validated(ACCURACY, table).to_csv(out, index=False)
    print(", ".join(f"{n} {status}" for status, n in table["status"].value_counts().items()))


if __name__ == "__main__":
    typer.run(main)
