"""What does holding a row on chip cost: registers and spills against the columns held?

python -m figures.resources A.csv B.csv C.csv --stem OUTDIR/resources
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import pandas as pd
import seaborn as sns
import typer
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from figures import page
from figures.curves import human, log2_axis, y_axis
from figures.look import in_order, look

# CUDA C++ Programming Guide, table of technical specifications, 8.0 to 10.0.
MOST_REGISTERS = 255
LABELS = {"registers": "registers a thread", "spill_bytes": "spilled bytes a thread"}
COLUMNS = {"arch", "variant", "dtype", "cols_held", "edges", "status", "compiler", *LABELS}
ADVICE = "make it with: python -m kernels.build --arch sm_90 --out results/build/sm_90"


def draw(ax: Axes, table: pd.DataFrame, y: str = "registers") -> None:
    """``y`` against columns held, for one architecture: the dtypes' median, their range as band."""
    names = in_order(table["variant"])
    looks = {name: look(name) for name in names}
    sns.lineplot(
        table[table["status"] == "ok"], x="cols_held", y=y, ax=ax, legend=False,
        hue="variant", hue_order=names, palette={k: v.colour for k, v in looks.items()},
        style="variant", style_order=names, markers={k: v.marker for k, v in looks.items()},
        dashes={k: v.dash for k, v in looks.items()}, estimator="median", errorbar=("pi", 100),
        markeredgecolor=None,
    )  # fmt: skip
    if y == "registers":
        ax.axhline(MOST_REGISTERS, color="0.3", linestyle=":", label="limit: 255 registers")
    log2_axis(ax, table["cols_held"])
    if y == "registers":
        y_axis(ax)
    else:
        spill_axis(ax, table[y].max())
    ax.set(xlabel="columns held", ylabel=LABELS[y])


def spill_axis(ax: Axes, most: float) -> None:
    """Logarithmic from 16 bytes on, with room for 0: most kernels spill nothing."""
    ax.set_yscale("symlog", base=2, linthresh=16)
    ax.set_ylim(-2, 2 * max(most, 16))
    ax.yaxis.set_major_locator(FixedLocator([0, *(4**k for k in range(2, 10))]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(human))


def panels(tables: pd.DataFrame) -> page.Grid:
    """One column of panels an architecture: registers above, spills below."""
    held = [(arch, t[t["cols_held"] > 0]) for arch, t in tables.groupby("arch", sort=False)]
    return [
        [page.Panel(str(a) if y == "registers" else "", t, partial(draw, y=y)) for a, t in held]
        for y in LABELS
    ]


def read(paths: list[Path]) -> pd.DataFrame:
    """The tables of several architectures in one.  Raises page.BadInput."""
    tables = [page.read_table(path, ADVICE) for path in paths]
    for path, table in zip(paths, tables, strict=True):
        if missing := sorted(COLUMNS - set(table.columns)):
            raise page.BadInput(
                f"{path} lacks the columns {', '.join(missing)}; expected resources.csv; {ADVICE}"
            )
        if not (table["cols_held"] > 0).any():
            raise page.BadInput(f"{path} holds no kernel that keeps columns on chip; {ADVICE}")
    table = pd.concat(tables, ignore_index=True)
    # Of two forms of one kernel that which looks for row ends would be drawn over the other.
    return table[~table["edges"]].reset_index(drop=True)


def stamp(tables: pd.DataFrame) -> str:
    """How the code was made, and what did not compile."""
    compilers = sorted(tables["compiler"].dropna().unique())
    parts = ["compiled ahead of time", ", ".join(compilers), "median and range of the dtypes"]
    held = tables[tables["cols_held"] > 0]
    if streaming := in_order(set(tables["variant"]) - set(held["variant"])):
        labels = ", ".join(look(name).label for name in streaming)
        parts.append(f"not drawn, because they hold no columns but stream them: {labels}")
    failed = tables[tables["status"] != "ok"]
    if len(failed):
        names = sorted({f"{r.variant} {r.dtype} {r.arch}" for r in failed.itertuples()})
        parts.append(f"did not compile: {', '.join(names)}")
    return " · ".join(filter(None, parts))


def main(
    tables: Annotated[list[Path], typer.Argument(help="resources.csv, one an architecture")],
    stem: Annotated[Path, typer.Option(help="path of the outputs without their suffix")],
) -> None:
    """Write the figure as STEM.svg, STEM.png and STEM.pdf."""
    with page.plainly():
        table = read(tables)
        page.save(panels(table), stamp(table), stem, share_y="row", tall=0.85)


if __name__ == "__main__":
    typer.run(main)
