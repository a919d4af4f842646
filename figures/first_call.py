"""What does a new width cost its first caller?

python -m figures.first_call first_call.csv --hardware hardware.json --stem OUTDIR/first_call
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from matplotlib.axes import Axes

from experiments.tables import FIRST_CALLS
from figures import page
from figures.curves import y_axis
from figures.look import in_order, look

ADVICE = "make it with: python -m experiments.first_call --out first_call.csv"
TITLES = {"first_ms": "the first call of a width", "again_ms": "a later call"}


def draw(ax: Axes, table: pd.DataFrame, y: str) -> None:
    """Milliseconds that a caller waits, for one width after another."""
    widths = list(table["cols"].unique())
    for name in in_order(table["variant"]):
        mine = table[table["variant"] == name]
        line = look(name).line(map(widths.index, mine["cols"]), mine[y])
        line.set_label(f"_{name}")
        ax.add_line(line)
    ax.set_xticks(range(len(widths)), [f"{cols:,}" for cols in widths], rotation=45)
    ax.margins(x=0.05)
    ax.autoscale_view(scaley=False)
    y_axis(ax, log=True)
    ax.set(xlabel="columns, in the order of the calls", ylabel="ms as a caller waits")


def panels(table: pd.DataFrame) -> page.Grid:
    """First calls, and later ones."""
    return [[page.Panel(title, table, partial(draw, y=y)) for y, title in TITLES.items()]]


def main(
    table: Annotated[Path, typer.Argument(help="first_call.csv")],
    hardware: Annotated[Path, typer.Option(help="hardware.json of the source")],
    stem: Annotated[Path, typer.Option(help="path of the outputs without their suffix")],
) -> None:
    """Write the figure as STEM.svg, STEM.png and STEM.pdf."""
    with page.plainly():
        data = page.read_valid(table, FIRST_CALLS, "a table of first calls", ADVICE)
        skipped = page.idle(page.skipped_dtypes(data), data["dtype"].nunique())
        words = "each variant's first call of all starts its compiler too"
        facts = page.hardware_of(table, hardware)
        note = [words, *page.origin(facts), *skipped, *page.outdated(data, facts)]
        page.save(panels(data[data["status"] == "ok"]), " · ".join(note), stem)


if __name__ == "__main__":
    typer.run(main)
