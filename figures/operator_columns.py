"""What fraction of copy does a softmax along another dimension reach, by the tensor's shape?

python -m figures.operator_columns TIDY.csv --hardware hardware.json --stem OUTDIR/columns
"""

import pandas as pd
from matplotlib.axes import Axes

from figures import family, page
from figures.curves import STOPS
from figures.look import in_order, look
from kernels.registry import DTYPES

WORDS = "(outer, columns, inner), along the columns"
GROUP = 0.8  # of the distance of two shapes, for all bars of one
BAR = 0.9  # of a bar's share of that: edges do not lie over a neighbour


def draw(ax: Axes, table: pd.DataFrame) -> None:
    """Bars in groups by shape, with their intervals; what has no time has its mark."""
    shown = table[table["variant"] != table["ceiling"]]
    shapes = list(shown.sort_values(["asked", "rows", "cols"])["shape"].unique())
    names = in_order(shown["variant"])
    width = GROUP / max(1, len(names))
    for number, name in enumerate(names):
        style, mine = look(name), shown[shown["variant"] == name]
        off = width * (number - (len(names) - 1) / 2)
        at = pd.Series([shapes.index(shape) + off for shape in mine["shape"]], mine.index)
        value, done = mine["fraction_of_ceiling"], mine["fraction_of_ceiling"].notna()
        spread = [
            (value - mine["fraction_of_ceiling_low"])[done],
            (mine["fraction_of_ceiling_high"] - value)[done],
        ]
        face = "white" if mine["stale"].any() else style.colour
        ax.bar(at[done], value[done], BAR * width, yerr=spread, color=face, edgecolor=style.colour,
               linewidth=0.6, error_kw={"linewidth": 0.6}, label=style.label)  # fmt: skip
        for status, marker in STOPS.items():
            if len(stopped := at[~done & (mine["status"] == status)]):
                ax.plot(stopped, [0.02] * len(stopped), marker, color=style.colour,
                        label=f"_{name} {status}")  # fmt: skip
    ax.axhline(1.0, color="0.6", linewidth=0.6)
    labels = [" x ".join(f"{int(n):,}" for n in shape.split("x")) for shape in shapes]
    ax.set_xticks(range(len(shapes)), labels, rotation=45, ha="right", rotation_mode="anchor")
    ax.set(ylabel="fraction of copy")


def panels(table: pd.DataFrame) -> page.Grid:
    """One panel a dtype."""
    groups = dict(list(table.groupby("dtype")))
    return [[page.Panel(d, groups[d], draw, in_legend=False)] for d in DTYPES if d in groups]


if __name__ == "__main__":
    family.main(panels, [WORDS])
