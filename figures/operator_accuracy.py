"""How accurate is each operator, ours and torch's, by kind of input?

python -m figures.operator_accuracy family/accuracy.csv --hardware hardware.json --stem OUTDIR/it
"""

import math
from functools import partial
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from matplotlib.axes import Axes

from experiments.family import OPERATORS
from experiments.family.fingerprint import sha256_of
from experiments.family.operator import OURS
from experiments.family.tables import ACCURACY
from experiments.grids import ACCURACY_INPUTS
from experiments.hardware import of_sweep
from figures import FAMILY_FIGURES, page
from figures.look import look
from kernels.registry import DTYPES

ADVICE = "make it with: python -m experiments.family.accuracy --out family/accuracy.csv"
WORDS = (
    "largest error of an output in units of the last place, of the magnitudes that are summed "
    "where terms cancel; of a sample what its noisy logit lacks of the largest, in units of "
    "float32; what is less than {least:g}, or infinite, is drawn at the axis' ends; in each band, "
    "from its top: {inputs}"
)
LEAST = 0.1  # 0 has no place on a log axis
BAND, TALL = 0.8, 2.6


def read(path: Path) -> pd.DataFrame:
    """The table in ``path``; implementations are its variants.  Raises BadInput."""
    table = page.read_valid(path, ACCURACY, "a table of operators' errors", ADVICE)
    old = table["operator"].map(sha256_of) != table["kernel_sha256"]
    table = table.rename(columns={"implementation": "variant"})
    return table.assign(stale=old & (table["variant"] == OURS))


def lines(table: pd.DataFrame) -> list[tuple[str, str]]:
    """What is asked of each operator, in the order of the family and of its cases."""
    asked = {
        (name, case.asked): None
        for name, operator in OPERATORS.items()
        if operator.accuracy
        for case in (*operator.accuracy.cases, *operator.accuracy.small)
    }
    some = set(zip(table["operator"], table["asked"], strict=True))
    return [key for key in asked if key in some]


def reach(table: pd.DataFrame) -> float:
    """The power of ten that no error of ``table`` is above, but for infinite ones."""
    errors = table["max_ulps"]
    return 10.0 ** math.ceil(math.log10(max(1.0, errors[errors < math.inf].max())))


def draw(ax: Axes, table: pd.DataFrame, most: float) -> None:
    """A band for whatever is asked, in it a dot for each kind of input, the worst of all shapes.

    The axis ends at ``most``.
    """
    bands = lines(table)
    keys = ["operator", "asked", "input", "variant"]
    for (operator, asked, kind, name), mine in table[table["status"] == "ok"].groupby(keys):
        place = ACCURACY_INPUTS.index(kind) / (len(ACCURACY_INPUTS) - 1) - 0.5
        y = bands.index((operator, asked)) + BAND * place
        worst = min(max(mine["max_ulps"].max(), LEAST), most)
        dot = look(str(name)).line([worst], [y], hollow=bool(mine["stale"].any()))
        in_front = name == OURS  # smaller, so that both are seen where they are equal
        dot.set(linestyle="", markersize=2.5 if in_front else 4.5, zorder=3 if in_front else 2)
        ax.add_line(dot)
    for edge in range(1, len(bands)):
        ax.axhline(edge - 0.5, color="0.85", linewidth=0.5)
    ax.axvline(0.5, color="0.6", linewidth=0.6)  # what rounding alone may cost
    ax.set(xscale="log", xlim=(LEAST / 1.5, most * 1.5), ylim=(len(bands) - 0.5, -0.5))
    ax.set_yticks(range(len(bands)), [f"{operator}: {asked}" for operator, asked in bands])
    ax.set(xlabel="units in the last place", ylabel="")


def panels(table: pd.DataFrame) -> page.Grid:
    """One panel a dtype, on one axis."""
    groups = dict(list(table.groupby("dtype")))
    dots = partial(draw, most=reach(table))
    return [[page.Panel(d, groups[d], dots) for d in DTYPES if d in groups]]


def stopped(table: pd.DataFrame) -> list[str]:
    """Parts of a stamp: how many rows have no error, and the first reason."""
    return [
        f"{len(mine)} {status}, such as {first['variant']} in {first['operator']}, "
        f"{first['asked']}, {first['dtype']}, {first['input']}: {first['reason']}"
        for status, mine in table[table["status"] != "ok"].groupby("status")
        for first in (mine.iloc[0],)
    ]


def main(
    table: Annotated[Path, typer.Argument(help="family/accuracy.csv")],
    hardware: Annotated[Path, typer.Option(help="hardware.json of the source")],
    stem: Annotated[Path, typer.Option(help="path of the outputs without their suffix")],
) -> None:
    """Write the figure as STEM.svg, STEM.png and STEM.pdf."""
    with page.plainly():
        data = read(table)
        told = of_sweep(page.read_hardware(hardware), FAMILY_FIGURES["operator_accuracy"])
        facts = page.origin(told)
        words = WORDS.format(least=LEAST, inputs=", ".join(ACCURACY_INPUTS))
        note = [words, *facts, *stopped(data)]
        note += [page.STALE] * bool(data["stale"].any())
        page.save(panels(data), " · ".join(note), stem, tall=TALL)


if __name__ == "__main__":
    typer.run(main)
