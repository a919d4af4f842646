"""An archive under a rerun: the same variants at the same points, in the same colours, faint.

A table that holds both has a column ``archived``: the archive's GPU, '' where measured here.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from experiments.tables import POINT
from figures.look import in_order, look

ALPHA = 0.5
THIN = 0.6  # of a line's width
BELOW = 1.8  # zorder: under what was measured here, and its ceiling
# A linear axis reaches so many times what was measured here, and cuts an archive's curves there:
# under those of five times the bandwidth one's own would be flat.
REACH = 2.0


def under(table: pd.DataFrame, archive: pd.DataFrame, gpu: str) -> pd.DataFrame:
    """``table`` with what ``archive``, another tidy one, has timed of its variants and points."""
    asked = table[["variant", *POINT]].drop_duplicates()
    same = archive[archive["status"] == "ok"].merge(asked)
    return pd.concat([table.assign(archived=""), same.assign(archived=gpu)], ignore_index=True)


def apart(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows measured here, and those of an archive, of which there may be none."""
    if "archived" not in table:
        return table, table.head(0)
    archived = table["archived"] != ""
    return table[~archived], table[archived]


def faint(ax: Axes, line: Line2D, label: str, most: float = math.inf, **changes: Any) -> None:
    """Draw an archive's ``line``, with ``changes`` to it; limits need not reach beyond ``most``."""
    line.set(alpha=ALPHA, linewidth=THIN * line.get_linewidth(), zorder=BELOW, label=label)
    line.set(**changes)
    if math.isinf(most):
        ax.add_line(line)
    else:  # whose own limits would be those of the axes
        ax.add_artist(line)
        xs, ys = line.get_data()
        ax.update_datalim(np.column_stack([xs, np.fmin(ys, most)]))


def entry(ax: Axes, archived: pd.DataFrame, **kind: Any) -> None:
    """Give the legend a line of this ``kind`` that names the GPU of the ``archived`` rows."""
    if len(archived):
        line = Line2D([], [], color="black", **kind)
        faint(ax, line, f"{archived['archived'].iloc[0]}, archived")


def words(table: pd.DataFrame, origin: list[str]) -> list[str]:
    """A part of a stamp: the ``origin`` of the archived rows of ``table``, where it has some."""
    _, archived = apart(table)
    if archived.empty:
        return []
    stale = [look(name).label for name in in_order(archived.loc[archived["stale"], "variant"])]
    old = [f"with earlier code of {', '.join(stale)}"] if stale else []
    return [f"faint: {', '.join([*origin, *old])}"]
