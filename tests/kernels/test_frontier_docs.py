"""docs/frontier.md says what the compiled kernels have on their way."""

import re
from pathlib import Path

import pytest

from experiments.launches import Gpu
from experiments.layout import BY_NAME, CONTIGUOUS
from kernels.compiled import Job
from kernels.frontier.compiler import compile_plan
from kernels.frontier.plans import (
    ALIKE,
    APART,
    LINE,
    NONE,
    REGIMES,
    VECTOR_BYTES,
    staged_bytes,
    tile_rows,
)
from kernels.frontier.select import DEFAULT, Request, select
from kernels.occupancy import blocks
from kernels.registry import ELEMENT_BYTES, ROOT
from tests.gpu.drawn import widest_dealt

MULTIPROCESSORS = 132
STREAMED = 4  # vectors of a thread at once (stream.cu)
ROW = re.compile(
    r"\| (\w+) \| (\w+)(, sliced)? \| (many|[\d,]+) x ([\d,]+) \| ([^|]+) \| (\d+) \| (\d+) \|"
)
TEXT = Path(ROOT.parent, "docs/frontier.md").read_text()
ROWS = [found.groups() for line in TEXT.splitlines() if (found := ROW.match(line))]
# Of the places that miss a goal: where, what is reached, what was tuned, KB, and why.
HEAD, NOWHERE = "| missed or open |", "–"


def missed() -> list[list[str]]:
    """The rows of the table of places that miss a goal, in cells."""
    table = TEXT[TEXT.index(HEAD) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def test_every_regime_is_told():
    assert {row[0] for row in ROWS} == set(REGIMES)


def test_places_that_miss_a_goal_have_on_their_way_what_the_table_of_theirs_says():
    cells = [row[3] for row in missed() if row[3] != NOWHERE]
    told = [number for cell in cells for number in re.split("[,;] ", cell)]
    *_, last = (n for n, row in enumerate(ROWS) if row[0] == "stream")  # ends the first table
    assert told == [row[-1] for row in ROWS[last + 1 :]]
    assert len(missed()) - len(cells) == 1  # Triton's


def test_the_widest_rows_that_are_dealt_out_are_told():
    for dtype, cell in (("float32", "float32 columns"), ("bfloat16", "of 16 bits")):
        whole, apart = (
            widest_dealt(dtype, BY_NAME[layout], Gpu(DEFAULT, 90, MULTIPROCESSORS))[0] / 1e6
            for layout in (CONTIGUOUS, "sliced input")
        )
        assert f"{whole:.2f} million {cell}" in TEXT
        assert f"{apart:.2f}" in TEXT


@pytest.mark.parametrize(
    ("regime", "dtype", "sliced", "rows", "columns", "label", "fit", "kilobytes"), ROWS
)
def test_bytes_on_their_way_are_those_of_the_compiled_kernel(
    regime: str, dtype: str, sliced: str | None, rows: str, columns: str, label: str, fit: str,
    kilobytes: str,
):  # fmt: skip
    size, cols = ELEMENT_BYTES[dtype], int(columns.replace(",", ""))
    edges = APART if sliced else ALIKE if cols * size % VECTOR_BYTES else NONE
    asked = Request(
        dtype, 10**6 if rows == "many" else int(rows.replace(",", "")), cols, edges,
        contiguous=not sliced,
        lines=edges == NONE and cols * size % (LINE * VECTOR_BYTES) == 0, arch=90,
        multiprocessors=MULTIPROCESSORS,
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
    if regime in ("cluster", "grid"):  # as many as there are
        found = min(found, -(-asked.rows * shape.sizes[1] // MULTIPROCESSORS))
    assert (found, round(found * of_block / 1024)) == (int(fit), int(kilobytes))
