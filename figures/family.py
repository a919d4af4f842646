"""What the figures of operators share: their table, their grid of panels, their command line."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from experiments.family import OPERATORS
from experiments.family.others import COPIES
from experiments.family.tables import read_tidy
from experiments.hardware import of_sweep
from experiments.tables import BadTable
from figures import page
from figures.curves import curves
from kernels.registry import DTYPES

ADVICE = (
    "make it with: python -m experiments.family.tidy --raw family/raw/OPERATOR.csv.gz "
    "--out OPERATOR.csv"
)
Draw = Callable[[Axes, pd.DataFrame], None]


def read(path: Path) -> pd.DataFrame:
    """The TIDY table of an operator, without the two copies that one is the better of.

    Implementations are its variants.  Raises BadInput.
    """
    try:
        table = read_tidy(path)
    except BadTable as error:
        raise page.BadInput(f"{path} is not a tidy table of an operator: {error}; {ADVICE}") from (
            error
        )
    table = table.rename(columns={"implementation": "variant"})
    return table[~table["variant"].isin(COPIES)]


def by_asked_and_dtype(
    table: pd.DataFrame, draw: Draw, labels: Mapping[str, str] | None = None
) -> page.Grid:
    """A row of panels for what is asked, a column for each dtype; ``labels`` as in a Panel."""
    return [
        [
            page.Panel(f"{asked}, {dtype}", _only(table, asked, dtype), draw, labels=labels or {})
            for dtype in DTYPES
            if dtype in set(table["dtype"])
        ]
        for asked in in_order(table)
    ]


def in_order(table: pd.DataFrame) -> list[str]:
    """What is asked in ``table``, in the order of the operator's cases, then by name."""
    known = OPERATORS[str(table["operator"].iloc[0])]
    order = [case.asked for case in (*known.cases, *known.smoke)]
    return sorted(set(table["asked"]), key=lambda asked: ((*order, asked).index(asked), asked))


def _only(table: pd.DataFrame, asked: str, dtype: str) -> pd.DataFrame:
    return table[(table["asked"] == asked) & (table["dtype"] == dtype)]


def line(y: str, x: str = "cols", ends: tuple[str, str] | None = None, log: bool = False):
    """Draws ``y`` against ``x``, of the fewest rows where several have one ``x``."""
    low, high = ends or (f"{y}_low", f"{y}_high")

    def draw(ax: Axes, table: pd.DataFrame) -> None:
        once = table.sort_values(["rows", "cols"]).drop_duplicates(["variant", x])
        curves(ax, once, x, y, low, high, y_log=log)
        _name_bands(ax, once)

    return draw


def _name_bands(ax: Axes, table: pd.DataFrame) -> None:
    """Tell the legend what the bands are, as the stamp tells it."""
    if (table["status"] == "ok").any():
        spread = "95% interval" if table["n_blocks"].max() >= page.LEAST_BLOCKS else "range"
        band = PolyCollection([], facecolor="0.4", alpha=0.25, label=f"band: {spread} of blocks")
        ax.add_collection(band, autolim=False)


def main(
    panels: Callable[[pd.DataFrame], page.Grid],
    words: Iterable[str] | Callable[[pd.DataFrame], Iterable[str]],
) -> None:
    """The command line of a figure; ``words``, or what they say of the table, open its stamp."""

    def command(
        table: Annotated[Path, typer.Argument(help="tidy table of the operator")],
        hardware: Annotated[Path, typer.Option(help="hardware.json of the source")],
        stem: Annotated[Path, typer.Option(help="path of the outputs without their suffix")],
    ) -> None:
        """Write the figure as STEM.svg, STEM.png and STEM.pdf."""
        with page.plainly():
            data = read(table)
            name = f"family/{data['operator'].iloc[0]}"
            facts = of_sweep(page.read_hardware(hardware), name)
            told = words(data) if callable(words) else words
            note = [*told, page.stamp(facts, data)]
            page.save(panels(page.without_skipped_dtypes(data)), " · ".join(note), stem)

    typer.run(command)
