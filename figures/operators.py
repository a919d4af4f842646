"""What fraction of its ceiling's bandwidth does each implementation of an operator reach?

python -m figures.operators TIDY.csv --hardware hardware.json --stem OUTDIR/backward
"""

import pandas as pd
from matplotlib.axes import Axes

from figures import family, page
from figures.look import look

WORDS = "bandwidths of the bytes that are moved at least, of the fewest rows of a width"
_draw = family.line("fraction_of_ceiling")


def draw(ax: Axes, table: pd.DataFrame) -> None:
    """Fraction of the copy's bandwidth, or of the sum's, against columns."""
    ceilings = table.loc[table["status"] == "ok", "ceiling"].unique()
    _draw(ax, table[~table["variant"].isin(ceilings)])
    for name in ceilings:
        ceiling = look(name)
        ax.axhline(1.0, color=ceiling.colour, linestyle=(0, ceiling.dash), zorder=1.9,
                   label=ceiling.label)  # fmt: skip
    ax.set(xlabel="columns", ylabel="fraction of the ceiling")


def panels(table: pd.DataFrame) -> page.Grid:
    """What is asked down, dtypes across."""
    return family.by_asked_and_dtype(table, draw)


if __name__ == "__main__":
    family.main(panels, [WORDS])
