"""How long do few rows take: the k largest of a vocabulary, a sample of it, a call of a softmax?

python -m figures.operator_latency TIDY.csv --hardware hardware.json --stem OUTDIR/sample
"""

from functools import partial

import pandas as pd
from matplotlib.axes import Axes

from experiments.family import OPERATORS
from experiments.family.calls import ATTENTION, HEADS
from figures import family, page

# Called as what it is beside, it bounds no wait; and what chooses few of a row writes less.
SOFTMAXES = f"softmaxes; of {ATTENTION}, sequences"
CALLED, WHOLE = {"copy": "copy, called alike"}, {"copy": "copy of whole rows"}
_draw = family.line("median_us", "rows", ("ci_low_us", "ci_high_us"), log=True)


def draw(ax: Axes, table: pd.DataFrame, label: str) -> None:
    """Microseconds on the device, or until a caller has the result, against rows.

    Which the axis calls ``label``.
    """
    _draw(ax, table)
    waits = "call" in set(table["timer"])
    ax.set(xlabel=label, ylabel="µs that a caller waits" if waits else "µs on the device")


def panels(table: pd.DataFrame) -> page.Grid:
    """What is asked down, dtypes across, of one number of columns."""
    calls = _are_calls(table)
    label, labels = (SOFTMAXES, CALLED) if calls else ("rows", WHOLE)
    mine = table[table["cols"] == _cols(table)]
    if calls:  # whose intervals are wide, and would hide one another
        copies = mine["variant"] == "copy"
        ends = mine[["ci_low_us", "ci_high_us"]].mask(copies, mine["median_us"], axis=0)
        mine = mine.assign(**ends)
    # A sequence of attention is hundreds of softmaxes: on one axis nothing would lie below them.
    heads = mine["asked"] == ATTENTION
    rows = mine["rows"].mask(heads, mine["rows"] // (HEADS * mine["cols"]))
    mine = mine.assign(rows=rows)
    return family.by_asked_and_dtype(mine, partial(draw, label=label), labels)


def words(table: pd.DataFrame) -> list[str]:
    """Parts of a stamp: of which number of columns, and what the copy says."""
    if _are_calls(table):
        return [
            f"softmaxes of {_cols(table):,} elements; other lengths are in the table",
            "a call that copies is timed beside them, has no band, and is no ceiling of a wait",
        ]
    return [
        f"rows of {_cols(table):,} columns; other widths are in the table",
        "copy reads and writes whole rows, also where results are few",
    ]


def _cols(table: pd.DataFrame) -> int:
    """The number of columns that is measured most."""
    return int(table["cols"].mode().iloc[0])


def _are_calls(table: pd.DataFrame) -> bool:
    """Whether shapes are so small that their calls are what is timed."""
    return OPERATORS[str(table["operator"].iloc[0])].waits


if __name__ == "__main__":
    family.main(panels, words)
