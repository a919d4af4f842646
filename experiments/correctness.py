"""Check every variant on awkward inputs: odd shapes, strides, special values, shifts.

The cases are what users meet and benchmarks do not: rows that start off 16 bytes, one column,
-inf masks, NaN, a shift by 1e4.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, product
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from experiments.check import Verdict, check, planted
from experiments.examine import attempt, blaming
from experiments.sweeps import Point
from kernels.outputs import Output, TopK, spoilt
from kernels.registry import DTYPES, VARIANTS, variant

SHAPES = ((1, 1), (3, 2), (7, 31), (5, 781), (2, 1000), (3, 4097), (2, 20_001))
GPU_SHAPES = ((1823, 781), (2, 50_257), (1, 131_072), (300, 32_768), (1, 1_048_576), (70_000, 33))
INF = float("inf")
PARTS = 3  # so that no process is left alone with one variant's cases


@dataclass(frozen=True)
class Case:
    """An input and the memory its softmax, or the largest of it, goes to."""

    name: str
    x: Tensor
    out: Output


def cases(dtype: torch.dtype, device: str, k: int = 0) -> Iterator[Case]:
    """Every case for one dtype; the interpreter's share leaves the large shapes out.

    The outputs are those of a variant of this ``k``: one that gives a row's k largest cannot write
    to its input, and some of the shapes are too small for it.
    """
    for case in _whole(dtype, device):
        if not k:
            yield case
        elif case.out is not case.x:
            yield replace(case, out=_small(case.x, k))


def _small(x: Tensor, k: int) -> TopK:
    """For the k largest of each row of ``x``, with as much room between rows as it has."""
    room = len(x), k + x.stride(0) - x.shape[1]
    top = TopK(x.new_empty(room), x.new_empty(room, dtype=torch.int64))
    return TopK(*(t[:, :k] for t in spoilt(top)))


def _whole(dtype: torch.dtype, device: str) -> Iterator[Case]:
    for shape in SHAPES + (GPU_SHAPES if device == "cuda" else ()):
        yield _fresh("planted", planted(*shape, dtype, device, seed=sum(shape)))
    yield from _layouts(dtype, device)
    yield from _special(dtype, device)


def _fresh(name: str, x: Tensor) -> Case:
    return Case(name, x, torch.full_like(x, float("nan")))


def _layouts(dtype: torch.dtype, device: str) -> Iterator[Case]:
    wide = planted(6, 1030, dtype, device, seed=3)
    y = torch.full_like(wide, float("nan"))
    yield Case("row stride wider than a row", wide[:, :1000], y[:, :1000])
    yield Case("rows off 16 bytes, in and out alike", wide[:, 1:1002], y[:, 1:1002])
    yield Case("rows off 16 bytes, in and out apart", wide[:, 1:1002], y[:, 2:1003])
    yield Case("rows off 16 bytes, shorter than a vector", wide[:, 3:5], y[:, 3:5])
    same = planted(5, 999, dtype, device, seed=4)
    yield Case("in place", same, same)


def _special(dtype: torch.dtype, device: str) -> Iterator[Case]:
    def rows() -> Tensor:
        return planted(4, 300, dtype, device, seed=5)

    masked = rows()
    masked[:, ::3] = -INF
    yield _fresh("-inf columns", masked)
    first = planted(4, 9000, dtype, device, seed=6)
    first[:, :8200] = -INF
    yield _fresh("-inf for the first 8200 columns", first)
    few = rows()
    few[:, 3:] = -INF
    yield _fresh("-inf but for three columns", few)
    nothing = rows()
    nothing[1] = -INF
    yield _fresh("a row of -inf", nothing)
    for value in (float("nan"), INF):
        x = rows()
        x[2, 7] = value
        yield _fresh(f"one {value}", x)
    yield _fresh("all equal", torch.full((4, 300), 3.0, dtype=dtype, device=device))
    if dtype == torch.float32:
        yield _fresh("shifted by 1e4", rows() + 1e4)
        yield _fresh("shifted by -1e4", rows() - 1e4)


def examine(name: str, case: Case) -> Verdict:
    """Run variant ``name`` on ``case`` and compare with float64."""
    from kernels.launch import bind

    x = case.x.clone(memory_format=torch.preserve_format)  # in place destroys the input
    bind(name)(case.x, case.out)
    return check(x, case.out)


def report(name: str, dtype: str, device: str, part: int) -> list[dict[str, Any]]:
    """One row a case for variant ``name`` at ``dtype``, in every ``PARTS``-th case.

    Raises GpuLost where the GPU does not answer any more.
    """
    rows = []
    every = cases(getattr(torch, dtype), device, variant(name).k)
    for case in islice(every, part, None, PARTS):
        point = Point(dtype, *case.x.shape)
        with blaming(f"{name} at {point}, {case.name}"):
            verdict, reason = attempt(name, point, device, partial(examine, name, case))
        rows.append(
            {
                "variant": name,
                "dtype": dtype,
                "case": case.name,
                "rows": point.rows,
                "cols": point.cols,
                "status": "skipped" if verdict is None else "ok" if verdict.ok else "wrong",
                "reason": verdict.reason if verdict else reason,
                "max_rel_err": verdict.max_rel_err if verdict else None,
                "row_sum_err": verdict.row_sum_err if verdict else None,
            }
        )
    return rows


def checked() -> list[str]:
    """The variants that are checked, those first that take longest: the peers."""
    first = sorted(VARIANTS, key=lambda v: v.framework != "peers")
    return [v.name for v in first if not v.ceiling]


def check_all(processes: Executor, device: str, names: Iterable[str]) -> pd.DataFrame:
    """One row a (variant of ``names``, dtype, case)."""
    tasks = list(product(names, DTYPES, [device], range(PARTS)))
    reports = processes.map(report, *zip(*tasks, strict=True))
    return pd.DataFrame(chain.from_iterable(reports))
