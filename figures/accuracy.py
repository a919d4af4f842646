"""How accurate is each variant, by kind of input?

python -m figures.accuracy accuracy.csv --hardware hardware.json --stem OUTDIR/accuracy
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import seaborn as sns
import typer
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm

from experiments.tables import ACCURACY
from figures import page
from figures.look import in_order, look
from kernels.registry import DTYPES

ADVICE = "make it with: python -m experiments.accuracy --out accuracy.csv"
COLOURS = LogNorm(0.25, 1e4)
SUMS = "row sums"
TALL = 4.2  # a line a variant, whose labels stay apart in the paper
# Binary digits of a number: just below 1, where sums are, a unit in the last place is 2^-digits.
DIGITS = {"float32": 24, "float16": 11, "bfloat16": 8}


def draw(ax: Axes, table: pd.DataFrame) -> None:
    """The largest error over all shapes, a cell a variant and kind of input, then that of sums."""
    worst = table.pivot_table(
        index="variant", columns="input", values="max_ulps", aggfunc="max", dropna=False
    )
    worst = worst.reindex(index=in_order(table["variant"]), columns=table["input"].unique())
    worst[SUMS] = table.groupby("variant")["sum_ulps"].max()
    texts = worst.map(short)
    sns.heatmap(
        worst.clip(COLOURS.vmin, COLOURS.vmax), ax=ax, norm=COLOURS, cmap="cividis", cbar=False,
        annot=texts, fmt="", annot_kws={"size": "xx-small"}, linewidths=0.4,
        yticklabels=[look(name).label for name in worst.index],
    )  # fmt: skip
    for text in ax.texts:
        text.set_in_layout(False)  # it lies in its cell: hundreds of them need no measuring
    ax.set(xlabel="", ylabel="")
    for label in ax.get_xticklabels():
        label.set(rotation=60, ha="right", rotation_mode="anchor")
    ax.grid(visible=False)


def short(ulps: float) -> str:
    """Two digits, or whole ulps, as a cell has room for; nothing where nothing was measured."""
    if np.isnan(ulps):
        return ""
    return f"{ulps:.0f}" if ulps >= 10 or ulps < 0.005 else f"{ulps:.2g}"


def panels(table: pd.DataFrame) -> page.Grid:
    """One panel a dtype, each with all variants, so that they line up."""
    return [
        [
            page.Panel(d, _of(table, d), draw, in_legend=False)
            for d in DTYPES
            if d in set(table.dtype)
        ]
    ]


def _of(table: pd.DataFrame, dtype: str) -> pd.DataFrame:
    """The rows of ``dtype``, without an error where the variant gave no finite result."""
    mine = table[table["dtype"] == dtype]
    ok = mine["status"] == "ok"
    return mine.assign(
        max_ulps=mine["max_ulps"].where(ok),
        sum_ulps=mine["row_sum_err"].where(ok) * 2.0 ** DIGITS[dtype],
    )


def fewer(table: pd.DataFrame) -> list[str]:
    """A part of a stamp that names the variants whose worst is one of fewer shapes than others'."""
    done = table[table["status"] != "skipped"]
    shapes = done.drop_duplicates(["variant", "dtype", "rows", "cols"])
    counts = shapes.groupby(["variant", "dtype"]).size().groupby("variant").min()
    labels = [look(name).label for name in in_order(counts[counts < counts.max()].index)]
    return [f"in some of the shapes alone: {', '.join(labels)}"] if labels else []


def main(
    table: Annotated[Path, typer.Argument(help="accuracy.csv")],
    hardware: Annotated[Path, typer.Option(help="hardware.json of the source")],
    stem: Annotated[Path, typer.Option(help="path of the outputs without their suffix")],
) -> None:
    """Write the figure as STEM.svg, STEM.png and STEM.pdf."""
    with page.plainly():
        data = page.read_valid(table, ACCURACY, "an accuracy table", ADVICE)
        words = (
            "largest error of an output and of a row's sum in units of their last place; "
            "empty: skipped, or not finite"
        )
        every = data["dtype"].nunique()
        # What is skipped in one dtype is an empty cell; in all of them it would be an empty line.
        missing = {n: d for n, d in page.skipped_dtypes(data).items() if len(d) == every}
        facts = page.hardware_of(table, hardware)
        note = [words, *page.origin(facts), *page.idle(missing, every)]
        note += [*fewer(data), *page.outdated(data, facts)]
        done = data[~data["variant"].isin(missing)]
        page.save(panels(done), " · ".join(note), stem, tall=TALL)


if __name__ == "__main__":
    typer.run(main)
