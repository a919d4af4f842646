"""Tables of the post that are computed: the gain of each step of the ladder, counts, verdicts."""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.claim import Measure
from experiments.claims import recorded_sweep
from experiments.tables import BadTable
from experiments.tidy import interval
from figures.look import look
from kernels.fingerprint import variant_sha256
from kernels.registry import BY_NAME
from paper.blog.inputs import BadPage, Inputs, first_line, only

DAGGER = "†"
ERRATA = Path(__file__).parents[2] / "docs" / "errata.md"
# Each rung, and what was changed to reach it.
LADDER = (
    ("cuda_thread_row", "one thread a row"),
    ("cuda_block_serial", "a block a row, one thread combines"),
    ("cuda_block_tree", "the block combines by a tree"),
    ("cuda_float4_256", "loads and stores of four floats"),
    ("cuda_float4", "as many threads as the row wants"),
    ("cuda_warp_reduce", "warps combine by shuffles"),
)
LADDER_COLS, LADDER_ROWS = 8192, 4096
# S1's shape under the profiler.
PROFILED = {"rows": 8192, "cols": 32_000, "dtype": "float16"}
PROFILED_VARIANTS = (
    "torch_eager", "triton_constant", "triton_tiled_4096", "triton_online", "triton_frontier",
    "frontier",
)  # fmt: skip

Cells = Sequence[Sequence[str]]


def ladder(inputs: Inputs) -> Cells:
    """Step, change, microseconds, fraction of copy, gain over the step below with its interval.

    Gains are formed inside each block of the measurement and then summarised, as every ratio here.
    """
    tidy = inputs.tidy("cuda_ladder")
    try:
        sweep = recorded_sweep("cuda_ladder", inputs.folder / "raw", inputs.folder / "tidy")
    except BadTable as error:
        raise BadPage(first_line(error)) from error
    if sweep is None:
        raise BadPage(f"{inputs.folder}/raw/cuda_ladder.csv.gz is missing; the ladder needs it")
    point = {"cols": LADDER_COLS, "rows": LADDER_ROWS, "dtype": "float32"}
    cells = []
    for i, (name, change) in enumerate(LADDER):
        row = only(tidy, "tidy/cuda_ladder.csv", variant=name, timer="device", **point)
        gain = "–"
        if i:
            measure = Measure(
                kind="ratio", variant=name, against=LADDER[i - 1][0], dtype="float32",
                cols=(LADDER_COLS, LADDER_COLS), rows=(LADDER_ROWS, LADDER_ROWS),
            )  # fmt: skip
            speeds = sweep.speeds(measure, name, measure.against)
            if speeds.empty:
                raise BadPage(f"raw/cuda_ladder.csv.gz has no block with {name} at {point}")
            value, low, high = interval(speeds.iloc[:, 0].to_numpy())
            gain = f"{value:.2f}× ({low:.2f} to {high:.2f})"
        cells.append(
            (marked(look(name).label, row), change, number(row["median_us"]),
             f"{row['fraction_of_copy']:.2f}", gain)
        )  # fmt: skip
    return cells


def profiler(inputs: Inputs) -> Cells:
    """What ncu counted at S1's shape: bytes, threads, registers, occupancy, throughput."""
    table = inputs.table("profile.csv")
    cells = []
    for name in PROFILED_VARIANTS:
        row = only(table, "profile.csv", variant=name, **PROFILED)
        if row["status"] != "ok":
            raise BadPage(f"profile.csv: {name} is {row['status']}: {row['reason']}")
        moved = (row["dram_read_bytes"] + row["dram_write_bytes"]) / row["ideal_bytes"]
        cells.append(
            (marked(look(name).label, row), f"{moved:.2f}", f"{row['block_size']:.0f}",
             f"{row['registers']:.0f}", f"{row['occupancy_pct']:.0f}%",
             f"{row['dram_throughput_pct']:.0f}%")
        )  # fmt: skip
    return cells


def traffic(inputs: Inputs, variant: str, cols: int) -> str:
    """DRAM bytes of a float32 call over those that a softmax must move, as ncu counted."""
    table = inputs.table("profile.csv")
    at = table[(table["dtype"] == "float32") & (table["cols"] == cols)]
    row = only(at, f"profile.csv at {cols} columns", variant=variant)
    if row["status"] != "ok":
        raise BadPage(f"profile.csv: {variant} is {row['status']} at {cols} columns")
    return f"{(row['dram_read_bytes'] + row['dram_write_bytes']) / row['ideal_bytes']:.2f}"


def claim(inputs: Inputs, name: str) -> pd.Series:
    """The row of claims.csv with the id ``name``."""
    return only(inputs.table("claims.csv"), "claims.csv", id=name)


def verdicts(inputs: Inputs, publication: str) -> Cells:
    """Id, statement and what is measured, condition, value, verdict of a publication's claims."""
    table = inputs.table("claims.csv")
    mine = table[table["publication"] == publication]
    if mine.empty:
        raise BadPage(f"claims.csv has no claim of {publication}")
    return [
        (r["id"], f"{r['statement']} *{r['measured']}*", r["condition"], _measured(r), r["verdict"])
        for _, r in mine.iterrows()
    ]


def _measured(row: pd.Series) -> str:
    if pd.isna(row["value"]):
        return "none: " + str(row["reason"])
    if row["value"] in (0, float("inf")) and row["kind"] == "crossover":
        return "never" if row["value"] else "always"
    interval = f" ({number(row['low'])} to {number(row['high'])})"
    return number(row["value"]) + interval * bool(row["low"] < row["high"])


def errata() -> Cells:
    """Id, publication, place, what is wrong, what is right: the rows of docs/errata.md."""
    rows = re.findall(r"^\| (E\d\d) \|(.*)\|$", ERRATA.read_text(), re.MULTILINE)
    if not rows:
        raise BadPage(f"{ERRATA} has no table of errata")
    return [(name, *(cell.strip() for cell in rest.split(" | ")[:4])) for name, rest in rows]


def number(value: float) -> str:
    """Three digits and more where the number has them: 0.0314, 3.14, 314, 31,400."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def marked(label: str, row: pd.Series) -> str:
    """``label`` with a dagger where its row was measured, or counted, with earlier code."""
    if "stale" in row:
        stale = bool(row["stale"])
    else:
        stale = row["kernel_sha256"] != variant_sha256(BY_NAME[row["variant"]])
    return label + DAGGER * stale
