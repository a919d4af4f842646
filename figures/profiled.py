"""What the figures of a profile share: one line a variant, one panel a point, and the archive's
table in place of one in which nothing could be counted."""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Protocol

import pandas as pd
import typer
from matplotlib.axes import Axes

from experiments.counts import NAMES, POINTS, read_counts, whole
from experiments.launched import BadRecord
from experiments.sweeps import Point
from experiments.tables import POINT, BadFile, BadTable
from experiments.tidy import CEILINGS
from figures import page
from figures.curves import STOPS
from figures.look import in_order, look
from kernels.registry import FRAMEWORKS

ADVICE = "make it with: python -m experiments.profiler --out profile.csv"
TALL = 3.4
Rows = Sequence[Sequence[Point]]


class Draw(Protocol):
    """Draws a table of one point, the variants on lines in the order of ``names``."""

    def __call__(self, ax: Axes, table: pd.DataFrame, names: Sequence[str]) -> None: ...


def lines(table: pd.DataFrame) -> list[str]:
    """The variants from top to bottom, a framework after another."""
    framework = dict(zip(table["variant"], table["framework"], strict=True))
    return sorted(in_order(framework), key=lambda name: FRAMEWORKS.index(framework[name]))


def draw_lines(ax: Axes, table: pd.DataFrame, names: Sequence[str]) -> None:
    """The y axis, a rule between two frameworks, and marks for what was not counted."""
    ax.set(yticks=range(len(names)), yticklabels=[look(name).label for name in names])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.4, -0.6)
    framework = dict(zip(table["variant"], table["framework"], strict=True))
    groups = [framework.get(name) for name in names]
    for i in range(1, len(names)):
        if groups[i] != groups[i - 1]:
            ax.axhline(i - 0.5, color="0.7", linewidth=0.6)
    for status, marker in STOPS.items():
        heights = [names.index(name) for name in table.loc[table["status"] == status, "variant"]]
        if heights:
            ax.plot(
                [0.04] * len(heights), heights, marker, color="0.45", markeredgewidth=1.1,
                transform=ax.get_yaxis_transform(), label=f"_lines {status}",
            )  # fmt: skip
    ax.grid(visible=False, axis="y")


def panels(table: pd.DataFrame, draw: Draw, rows: Rows = (POINTS,)) -> page.Grid:
    """A row of panels for each of ``rows``, one a point that the table has."""
    groups = {Point(*point): mine for point, mine in table.groupby(POINT)}
    known = [[point for point in row if point in groups] for row in rows]
    names = lines(table)
    return [
        [
            page.Panel(
                f"{point.rows:,} x {point.cols:,}\n{point.dtype}",
                groups[point],
                partial(draw, names=names),
                in_legend=False,
            )
            for point in row
        ]
        for row in known
        if row
    ]


def read(path: Path) -> pd.DataFrame:
    """The PROFILE table in ``path``, with a column ``stale``.  Raises page.BadInput.

    Without the copies, of which ncu sees nothing: the driver's are no kernels.
    """
    try:
        table = whole(read_counts(path))
        return table[~table["variant"].isin(CEILINGS)]
    except FileNotFoundError as error:
        raise page.BadInput(f"{path} does not exist; expected a table there; {ADVICE}") from error
    except (BadFile, BadRecord) as error:
        raise page.BadInput(str(error)) from error
    except (BadTable, OSError, ValueError) as error:
        raise page.BadInput(f"{path} is not a profile: {error}; {ADVICE}") from error


def chosen(path: Path, hardware: Path, archive: Path | None) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table to draw and its hardware: of the folder ``archive`` where ``path`` counts nothing.

    Raises page.BadInput where neither does.
    """
    table = read(path)
    if (table["status"] == "ok").any():
        return table, page.hardware_of(path, hardware)
    if archive is None:
        reason = table["reason"].iloc[0]
        raise page.BadInput(f"{path} counts nothing: {reason}; and no archive holds a profile yet")
    told = archive / "profile.csv"
    return read(told), page.hardware_of(told, archive / "hardware.json")


def note(
    table: pd.DataFrame, facts: dict[str, Any], words: str, variants: Sequence[str] = ()
) -> str:
    """The stamp: what is drawn, who counted, where the counts came from, who was not counted."""
    parts = [words, f"counted by {table['profiler'].iloc[0]}", *page.origin(facts)]
    if table.loc[table["status"] == "ok", "stale"].any():
        parts.append("hollow bars and marks are stale: counted with earlier code")
    seen = {*table["variant"], *CEILINGS}
    if lacking := [look(v).label for v in variants if v not in seen]:
        parts.append(f"not counted: {'; '.join(lacking)}")
    return " · ".join(parts)


def main(
    draw: Draw,
    words: str,
    rows: Rows = (POINTS,),
    variants: Sequence[str] = NAMES,
    tall: float = TALL,
) -> None:
    """The command line of a figure of a profile; ``words`` open its stamp, the rest as in panels.

    It has a line for each of ``variants`` that the table holds at these points.
    """

    def command(
        table: Annotated[Path, typer.Argument(help="profile.csv")],
        hardware: Annotated[Path, typer.Option(help="hardware.json of the source")],
        stem: Annotated[Path, typer.Option(help="path of the outputs without their suffix")],
        archive: Annotated[Path | None, typer.Option(help="to draw where TABLE is empty")] = None,
    ) -> None:
        """Write the figure as STEM.svg, STEM.png and STEM.pdf."""
        with page.plainly():
            data, facts = chosen(table, hardware, archive)
            data = data[data["variant"].isin(variants)]
            data = data[data[POINT].apply(tuple, axis=1).isin([*chain(*rows)])]
            if data.empty:
                raise page.BadInput(f"{table} counts none of this figure's points; {ADVICE}")
            page.save(panels(data, draw, rows), note(data, facts, words, variants), stem, tall=tall)

    typer.run(command)
