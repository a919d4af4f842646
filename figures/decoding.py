"""What does a token take, chosen alone and with the transformer before it?

python -m figures.decoding decoding.csv --hardware hardware.json --stem OUTDIR/decoding
"""

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from matplotlib.axes import Axes

from experiments.transformer.chance import TEMPERATURE, TOP_K, TOP_P
from experiments.transformer.fingerprint import DECODED
from experiments.transformer.stale import other_code
from experiments.transformer.tables import DECODING
from figures import page
from figures.curves import log2_axis, y_axis
from figures.transformer import LOOKS, outdated, read

# By what was timed, and how.
TITLES = {
    ("sample", ("graph", "events")): "choosing, on the device",
    ("sample", ("call", "host")): "choosing, as a caller waits",
    ("generate", ("call", "host")): "generating, as a caller waits",
}
MARKERS = {"torch": "o", "ours": "D"}


def draw(ax: Axes, table: pd.DataFrame) -> None:
    """Microseconds for one token of every sequence, with their intervals, by sequences.

    Markers of ours are hollow where it is stale.
    """
    old = bool(other_code(table, DECODED))
    for operators, mine in table.groupby("operators", sort=False):
        label, colour, _ = LOOKS[str(operators), False]
        rounds = mine["tokens"] / mine["batch"]
        us, low, high = (mine[c] / rounds for c in ("median_us", "low_us", "high_us"))
        ax.errorbar(
            mine["batch"], us, yerr=[us - low, high - us], color=colour, label=label,
            marker=MARKERS[str(operators)],
            markerfacecolor="white" if old and operators == "ours" else colour,
        )  # fmt: skip
    log2_axis(ax, table["batch"])
    y_axis(ax, log=True)
    ax.set(xlabel="sequences", ylabel="µs for one token\nof every sequence")


def panels(table: pd.DataFrame) -> page.Grid:
    """One panel for what was timed, and how."""
    found = {
        title: table[(table["what"] == what) & table["timer"].isin(timers)]
        for (what, timers), title in TITLES.items()
    }
    return [[page.Panel(t, mine, draw, in_legend=False) for t, mine in found.items() if len(mine)]]


def main(
    table: Annotated[Path, typer.Argument(help="decoding.csv")],
    hardware: Annotated[Path, typer.Option(help="hardware.json of the source")],
    stem: Annotated[Path, typer.Option(help="path of the outputs without their suffix")],
) -> None:
    """Write the figure as STEM.svg, STEM.png and STEM.pdf."""
    with page.plainly():
        data = read(table, DECODING, "a table of decoding")
        note = [
            f"temperature {TEMPERATURE}, top-{TOP_K}, top-p {TOP_P}",
            f"{data['cols'].iloc[0]:,} columns",
            "generating runs the transformer over all tokens so far, without a cache",
            "median and 95% interval over turns of one process",
            *page.origin(page.hardware_of(table, hardware)),
            *outdated(data, DECODED),
        ]
        page.save(panels(data), " · ".join(note), stem)


if __name__ == "__main__":
    typer.run(main)
