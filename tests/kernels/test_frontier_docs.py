"""docs/frontier.md says what the compiled kernels have on their way."""

import re
from pathlib import Path

import pytest

from kernels.compiled import Job
from kernels.frontier.compiler import compile_plan
from kernels.frontier.plans import LINE, REGIMES, VECTOR_BYTES, staged_bytes, tile_rows
from kernels.frontier.select import DEFAULT, Request, select
from kernels.occupancy import blocks
from kernels.registry import ELEMENT_BYTES, ROOT

MULTIPROCESSORS = 132
STREAMED = 4  # vectors of a thread at once (stream.cu)
ROW = re.compile(r"\| (\w+) \| (\w+) \| (many|\d+) x ([\d,]+) \| ([^|]+) \| (\d+) \| (\d+) \| ")
TOLD = [ROW.match(line) for line in Path(ROOT.parent, "docs/frontier.md").read_text().splitlines()]
ROWS = [found.groups() for found in TOLD if found]


def test_every_regime_is_told():
    assert {row[0] for row in ROWS} == set(REGIMES)


@pytest.mark.parametrize(("regime", "dtype", "rows", "columns", "label", "fit", "kilobytes"), ROWS)
def test_bytes_on_their_way_are_those_of_the_compiled_kernel(
    regime: str, dtype: str, rows: str, columns: str, label: str, fit: str, kilobytes: str
):
    size, cols = ELEMENT_BYTES[dtype], int(columns.replace(",", ""))
    asked = Request(
        dtype, 10**6 if rows == "many" else int(rows), cols,
        edges=cols * size % VECTOR_BYTES != 0, contiguous=True,
        lines=cols * size % (LINE * VECTOR_BYTES) == 0, arch=90, multiprocessors=MULTIPROCESSORS,
    )  # fmt: skip
    shape = select(asked, DEFAULT)
    plan = shape.plan(cols, size, asked.edges)
    assert plan.label == f"{regime} {label}"
    used = compile_plan(plan, Job("frontier", dtype, "sm_90")).kernels[0].resources
    assert used.registers is not None
    assert used.static_shared_bytes is not None
    shared = used.static_shared_bytes + plan.ring_bytes
    of_block, row = plan.threads * plan.held * shape.together * VECTOR_BYTES, cols * size
    match regime:
        case "tile":
            of_block = tile_rows(shape, cols, size) * row
            shared += of_block + VECTOR_BYTES
        case "block":
            of_block = min(of_block, row)
        case "cluster" | "grid":
            of_block = min(of_block, row / shape.sizes[1])
        case "staged":
            of_block = row / shape.sizes[1]
            shared += staged_bytes(shape, cols, size, asked.edges)
        case "chunks":
            of_block = shape.sizes[0] * shape.sizes[6] * VECTOR_BYTES
        case "stream":
            of_block = plan.threads * STREAMED * VECTOR_BYTES
    found = blocks("sm_90", plan.threads, used.registers, shared)
    if regime == "grid":  # as many as there are
        found = min(found, -(-asked.rows * shape.sizes[1] // MULTIPROCESSORS))
    assert (found, round(found * of_block / 1024)) == (int(fit), int(kilobytes))
