"""docs/frontier.md says what the compiled kernels have on their way."""

import re
from pathlib import Path

import pytest

from experiments import tried
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
from kernels.frontier.select import DEFAULT, MANY, TABLES, Request, select, shape_of
from kernels.occupancy import blocks
from kernels.registry import DTYPES, ELEMENT_BYTES, ROOT
from kernels.triton import _select as in_triton
from kernels.triton._rows import registers
from tests.gpu.drawn import widest_dealt

MULTIPROCESSORS = 132
STREAMED = 4  # vectors of a thread at once (stream.cu)
ROW = re.compile(
    r"\| (\w+) \| (\w+)(, sliced)? \| (many|[\d,]+) x ([\d,]+) \| ([^|]+) \| (\d+) \| (\d+) \|"
)
TEXT = Path(ROOT.parent, "docs/frontier.md").read_text()
ROWS = [found.groups() for line in TEXT.splitlines() if (found := ROW.match(line))]
# Places that miss a goal, or that none judges: where, what is reached, what was tuned, KB, why.
HEADS = ("| missed or open |", "| no goal judges |")
TRITON = "Triton"
# Of those with narrow rows: where, what is reached, what was tuned, KB, waves and DRAM.
NARROW = "| narrow rows |"
# Of Triton's that miss a goal: columns, what each form reached, KB, DRAM.
WIDE = "| columns, in Triton |"


def rows_below(head: str) -> list[list[str]]:
    """The rows of the table that begins with ``head``, in cells."""
    table = TEXT[TEXT.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def test_every_regime_is_told():
    assert {row[0] for row in ROWS} == set(REGIMES)


def test_places_that_miss_a_goal_have_on_their_way_what_the_table_of_theirs_says():
    every = [row for head in HEADS for row in rows_below(head)]
    cells = [row[3] for row in every if not row[0].startswith(TRITON)]
    told = [number for cell in cells for number in re.split("[,;] ", cell)]
    *_, last = (n for n, row in enumerate(ROWS) if row[0] == "stream")  # ends the first table
    assert told == [row[-1] for row in ROWS[last + 1 :]]


def test_narrow_places_tell_the_fastest_three_that_tuning_tried():
    table = tried.read(tried.beside(TABLES / f"{DEFAULT}.json"))
    on_their_way = {(row[1], row[3], row[4]): row[-1] for row in ROWS}
    for place, _, told, kilobytes, *_ in rows_below(NARROW):
        dtype, rows, _, columns = place.split()
        cols, size = int(columns.replace(",", "")), ELEMENT_BYTES[dtype]
        best = tried.at(table, dtype, NONE, MANY, cols).head(3).to_dict("records")
        assert [f"warp {each}" for each in told.split("; ")] == [
            f"{shape_of(entry).plan(cols, size, NONE).label} {entry['fraction_of_copy']:.3f}"
            for entry in best
        ]
        assert kilobytes == on_their_way[dtype, rows, columns]


def test_wide_rows_have_on_their_way_in_triton_what_programs_that_fit_load():
    found = []
    for columns, *_, kilobytes, _ in rows_below(WIDE):
        cols = int(columns.replace(",", ""))
        for dtype, told in zip(DTYPES, kilobytes.split(", "), strict=True):
            asked = in_triton.Request(dtype, cols, edges=False, multiprocessors=MULTIPROCESSORS,
                                      threads=2048)  # fmt: skip
            dealt = in_triton.select(asked, DEFAULT).dealt
            _, share = dealt.deal(cols, asked.size, edges=False)
            bound = registers(dealt.warps, dealt.programs)
            fit = blocks("sm_90", 32 * dealt.warps, bound, shared_bytes=0)
            assert (fit, round(fit * share * VECTOR_BYTES / 1024)) == (dealt.programs, int(told))
            found.append(int(told))
    (ours,) = (row for row in rows_below(HEADS[0]) if row[0].startswith(TRITON))
    assert ours[3] == f"{min(found)} to {max(found)}"


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
