"""Tables of the post that are computed: the gain of each step of the ladder, counts, verdicts."""

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from experiments.claim import Measure
from experiments.recorded import recorded_sweep
from experiments.tables import BadTable
from experiments.tidy import interval
from figures.look import look
from paper.blog.inputs import BadPage, Inputs, first_line, only

DAGGER = "†"
ERRATA = Path(__file__).parents[2] / "docs" / "errata.md"
# Each rung, and what was changed to reach it.
LADDER = (
    ("cuda_thread_row", "one thread a row"),
    ("cuda_block_serial", "a block a row, one thread combines"),
    ("cuda_block_tree", "the block combines by a tree"),
    ("cuda_float4_256", "loads and stores of four floats, exponentials parked in the output"),
    ("cuda_float4", "as many threads as the row wants"),
    ("cuda_warp_reduce", "warps combine by shuffles"),
)
LADDER_COLS, LADDER_ROWS = 8192, 4096
TIDY_LADDER = "tidy/cuda_ladder.csv"
# S1's shape under the profiler.
PROFILED = {"rows": 8192, "cols": 32_000, "dtype": "float16"}
PROFILED_VARIANTS = (
    "torch_eager", "triton_constant", "triton_tiled_4096", "triton_online", "triton_frontier",
    "frontier",
)  # fmt: skip

# What is told of a call under ncu: its column of profile.csv, with traffic, and its style.
COUNTED: dict[str, tuple[str, Callable[[float], str]]] = {
    "traffic": ("traffic", "{:.2f}".format),
    "threads": ("block_size", "{:,.0f}".format),
    "registers": ("registers", "{:.0f}".format),
    "occupancy": ("occupancy_pct", "{:.0f}%".format),
    "throughput": ("dram_throughput_pct", "{:.0f}%".format),
}

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
        row = _done(tidy, TIDY_LADDER, variant=name, timer="device", **point)
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
            (marked(look(name).label, row), change, _cell(row, "median_us", number, TIDY_LADDER),
             _cell(row, "fraction_of_copy", "{:.2f}".format, TIDY_LADDER), gain)
        )  # fmt: skip
    return cells


def profiler(inputs: Inputs) -> Cells:
    """Kernel, then what COUNTED tells of it, at S1's shape."""
    rows = [_watched(inputs, variant=name, **PROFILED) for name in PROFILED_VARIANTS]
    return [(marked(look(row["variant"]).label, row), *_counted(row).values()) for row in rows]


def counted(
    inputs: Inputs, variant: str, cols: int, dtype: str = "float32", **rows: int
) -> dict[str, str]:
    """What COUNTED tells of a call, for a sentence.

    Its traffic is DRAM bytes over those that a softmax must move.
    """
    row = _watched(inputs, variant=variant, cols=cols, dtype=dtype, **rows)
    return {what: marked(text, row) for what, text in _counted(row).items()}


def _watched(inputs: Inputs, **where: object) -> pd.Series:
    table = inputs.counts
    moved = table["dram_read_bytes"] + table["dram_write_bytes"]
    return _done(table.assign(traffic=moved / table["ideal_bytes"]), "profile.csv", **where)


def _counted(row: pd.Series) -> dict[str, str]:
    return {what: _cell(row, *told, "profile.csv") for what, told in COUNTED.items()}


def _done(table: pd.DataFrame, name: str, **where: object) -> pd.Series:
    """The one row of ``table`` with these values, which is ok."""
    row = only(table, name, **where)
    if row["status"] != "ok":
        raise BadPage(f"{name}: {_told(row)} is {row['status']}: {row['reason']}")
    return row


def _cell(row: pd.Series, column: str, style: Callable[[float], str], name: str) -> str:
    """The number of ``row``, one of the table ``name``, in its style."""
    if pd.isna(row[column]) or not math.isfinite(row[column]):
        raise BadPage(f"{name}: {_told(row)} has no {column}")
    return style(row[column])


def _told(row: pd.Series) -> str:
    return f"{row['variant']} at {row['rows']:,} x {row['cols']:,} {row['dtype']}"


def claim(inputs: Inputs, name: str) -> pd.Series:
    """The row of claims.csv with the id ``name``."""
    return only(inputs.claims, "claims.csv", id=name)


def verdicts(inputs: Inputs, publication: str) -> Cells:
    """Id, statement and what is measured, condition, value, verdict of a publication's claims."""
    mine = inputs.claims[inputs.claims["publication"] == publication]
    if mine.empty:
        raise BadPage(f"claims.csv has no claim of {publication}")
    if bare := [row.id for row in mine.itertuples() if not row.condition]:
        raise BadPage(f"claims.csv: {bare[0]} has no condition")
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
    """Id, publication, place, what is wrong, what is right, consequence: rows of docs/errata.md."""
    rows = re.findall(r"^\| (E\d\d) \|(.*)\|$", ERRATA.read_text(), re.MULTILINE)
    if not rows:
        raise BadPage(f"{ERRATA} has no table of errata")
    return [(name, *(cell.strip() for cell in rest.split(" | ")[:5])) for name, rest in rows]


def number(value: float) -> str:
    """Three digits and more where the number has them: 0.0314, 3.14, 314, 31,400."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def marked(label: str, row: pd.Series) -> str:
    """``label`` with a dagger where its row was measured, or counted, with earlier code."""
    return label + DAGGER * bool(row["stale"])
