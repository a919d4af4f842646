"""Tables of the post: every cell has its number, or its row is named."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from paper.blog.inputs import BadPage, Inputs
from paper.blog.tables import DAGGER, Cells, counted, ladder, profiler, verdicts
from tests.blog.source import inputs


def spoil(path: Path, column: str, value: object, **where: object) -> None:
    table = pd.read_csv(path)
    mine = pd.concat([table[k] == v for k, v in where.items()], axis=1).all(axis=1)
    assert mine.any()
    table.loc[mine, column] = value
    table.to_csv(path, index=False)


LADDER = "tidy/cuda_ladder.csv"
RUNG = {"variant": "cuda_float4", "timer": "device", "cols": 8192}
S1 = {"variant": "torch_eager", "cols": 32_000}

of_s1 = partial(verdicts, publication="S1")


@pytest.mark.parametrize(
    ("make", "name", "column", "value", "where", "told"),
    [
        (ladder, LADDER, "median_us", None, RUNG, "4,096 x 8,192 float32 has no median_us"),
        (ladder, LADDER, "fraction_of_copy", None, RUNG, "float32 has no fraction_of_copy"),
        (ladder, LADDER, "status", "wrong", RUNG, "cuda_float4 at 4,096 x 8,192 float32 is wrong"),
        (profiler, "profile.csv", "registers", None, S1, "32,000 float16 has no registers"),
        (profiler, "profile.csv", "occupancy_pct", None, S1, "32,000 float16 has no occupancy_pct"),
        (profiler, "profile.csv", "dram_write_bytes", None, S1, "32,000 float16 has no traffic"),
        (profiler, "profile.csv", "dram_read_bytes", None, S1, "bytes where the status is ok"),
        (of_s1, "claims.csv", "condition", None, {"id": "C11"}, "C11 has no condition"),
    ],
)
def test_an_empty_cell_is_named(
    mine: Path, make: Callable[[Inputs], Cells], name: str, column: str, value: object,
    where: dict[str, object], told: str,
):  # fmt: skip
    make(inputs(mine))
    spoil(mine / name, column, value, **where)
    with pytest.raises(BadPage, match=told):
        make(inputs(mine))


@pytest.mark.parametrize(
    ("make", "name", "column"),
    [(of_s1, "claims.csv", "condition"), (profiler, "profile.csv", "occupancy_pct")],
)
def test_a_missing_column_is_named(
    mine: Path, make: Callable[[Inputs], Cells], name: str, column: str
):
    pd.read_csv(mine / name).drop(columns=column).to_csv(mine / name, index=False)
    with pytest.raises(BadPage, match=f"{name}.*: {column}"):
        make(inputs(mine))


def test_a_stale_count_bears_a_dagger(mine: Path):
    before = counted(inputs(mine), "cuda_split_rescale", cols=8192)["traffic"]
    spoil(mine / "profile.csv", "kernel_sha256", "0" * 64, variant="cuda_split_rescale")
    after = counted(inputs(mine), "cuda_split_rescale", cols=8192)["traffic"]
    assert after == before.removesuffix(DAGGER) + DAGGER
