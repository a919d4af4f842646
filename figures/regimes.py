"""Which of the frontier's kernels serves which shape?  A map of what it selects on an H200.

python -m figures.regimes --stem OUTDIR/regimes
"""

import json
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap

from figures import page
from figures.curves import human, log2_ticks
from figures.look import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, YELLOW
from kernels.frontier.plans import ALIKE, APART, LINE, NONE, REGIMES, VECTOR_BYTES
from kernels.frontier.select import DEFAULT, TABLES, Request, select
from kernels.registry import DTYPES, ELEMENT_BYTES

COLOURS = dict(
    zip(REGIMES, (SKY, BLUE, GREEN, ORANGE, YELLOW, VERMILLION, PURPLE, GREY), strict=True)
)
ARCH, MULTIPROCESSORS = 90, 132
ROWS = [2**k for k in range(18)]
# Four widths in each doubling.
WIDTHS = sorted({round(2 ** (k / 4) / 8) * 8 for k in range(4 * 5, 4 * 23 + 1)})
KINDS = {"whole vectors": NONE, "odd widths": ALIKE, "sliced input": APART}
PANELS = {
    f"{dtype}, {kind}": (dtype, edges) for dtype, (kind, edges) in product(DTYPES, KINDS.items())
}
# A run of tuning finds the tree changed where one before it has written the table: whether none of
# a commit's entries, some or all are of such a tree.
WRITING = {
    (False,): "",
    (False, True): " (in part with a table being written)",
    (True,): " (with a table being written)",
}


def chosen(dtype: str, edges: int) -> pd.DataFrame:
    """The regime of every shape: columns ``rows``, ``cols`` and ``regime``."""
    line = LINE * VECTOR_BYTES
    found = []
    for rows, width in product(ROWS, WIDTHS):
        cols = width + (edges == ALIKE)
        request = Request(
            dtype, rows, cols, edges, contiguous=edges != APART,
            lines=edges != APART and cols * ELEMENT_BYTES[dtype] % line == 0, arch=ARCH,
            multiprocessors=MULTIPROCESSORS,
        )  # fmt: skip
        found.append((rows, cols, select(request, DEFAULT).regime))
    return pd.DataFrame(found, columns=["rows", "cols", "regime"])


def draw(ax: Axes, table: pd.DataFrame) -> None:
    """A coloured cell a shape."""
    numbers = table.assign(number=table["regime"].map(REGIMES.index))
    grid = numbers.pivot_table(index="rows", columns="cols", values="number")
    colours = ListedColormap([COLOURS[r] for r in REGIMES])
    norm = BoundaryNorm(np.arange(len(REGIMES) + 1) - 0.5, len(REGIMES))
    ax.pcolormesh(
        np.log2(grid.columns), np.log2(grid.index), grid.to_numpy(), cmap=colours, norm=norm,
        shading="nearest", rasterized=True,
    )  # fmt: skip
    for axis, values in ((ax.xaxis, grid.columns), (ax.yaxis, grid.index)):
        ticks = log2_ticks(min(values), max(values))
        axis.set_ticks([np.log2(t) for t in ticks], [human(t) for t in ticks])
    ax.set(xlabel="columns", ylabel="rows")
    ax.grid(visible=False)
    for regime in REGIMES:
        if regime in set(table["regime"]):
            ax.plot([], [], "s", color=COLOURS[regime], markersize=7, label=regime)


def stamp() -> str:
    """What the map shows, and when and of which code its table was measured."""
    told = json.loads((TABLES / f"{DEFAULT}.json").read_text())
    commits = [told["code_commit"], *(e.get("code_commit", "") for e in told.get("entries", ()))]
    named: dict[str, set[bool]] = {}
    for name in filter(None, commits):
        named.setdefault(name.split("-")[0][:7], set()).add("-" in name)
    code = f"code {', '.join(name + WRITING[tuple(sorted(how))] for name, how in named.items())}"
    words = "what kernels/frontier selects"
    return " · ".join([words, told["gpu"], f"table measured {told['measured_utc'][:10]}", code])


def main(
    stem: Annotated[Path, typer.Option(help="path of the outputs without their suffix")],
) -> None:
    """Write the figure as STEM.svg, STEM.png and STEM.pdf."""
    tables = {title: chosen(*asked) for title, asked in PANELS.items()}
    panels = [page.Panel(title, table, draw, in_legend=False) for title, table in tables.items()]
    grid = [panels[i : i + len(KINDS)] for i in range(0, len(panels), len(KINDS))]
    page.save(grid, stamp(), stem, tall=0.72)  # areas, no slopes, are read in a map


if __name__ == "__main__":
    typer.run(main)
