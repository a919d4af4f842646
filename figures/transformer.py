"""Does a transformer learn the same with our operators, and what do its steps take?

python -m figures.transformer training.csv --hardware hardware.json --stem OUTDIR/transformer
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import pandas as pd
import pandera.pandas as pa
import typer
from matplotlib.axes import Axes

from experiments.tables import BadTable
from experiments.transformer.curves import (
    SMOOTHED,
    TIMES,
    Kind,
    allowed,
    apart,
    distances,
    smoothed,
)
from experiments.transformer.fingerprint import TRAINED
from experiments.transformer.stale import complete, other_code
from experiments.transformer.summary import summary
from experiments.transformer.tables import TRAINING
from figures import page
from figures.curves import y_axis
from figures.look import BLACK, DASHED, DOTTED, GREY, PURPLE, SKY, SOLID

ADVICE = "make it with: snakemake --cores 1 transformer"
# Label, colour, dash.
LOOKS: dict[Kind, tuple[str, str, tuple[float, ...]]] = {
    ("torch", False): ("torch", BLACK, SOLID),
    ("torch", True): ("torch, batches turned", GREY, DOTTED),
    ("compiled", False): ("torch.compile", SKY, SOLID),
    ("ours", False): ("ours", PURPLE, DASHED),
}


def read(path: Path, schema: pa.DataFrameSchema, name: str) -> pd.DataFrame:
    """The table in ``path``, which ``schema`` and ``name`` describe.  Raises BadInput."""
    try:
        return complete(schema, page.read_table(path, ADVICE))
    except BadTable as error:
        raise page.BadInput(f"{path} is not {name}: {error}; {ADVICE}") from error


def outdated(table: pd.DataFrame, operators: tuple[str, ...]) -> list[str]:
    """A part of a stamp, where ours is stale."""
    code = other_code(table, operators)
    return [f"ours is stale: measured with {code}"] if code else []


def line(ax: Axes, kind: Kind, values: pd.Series) -> None:
    """``values`` by step, as runs of ``kind`` look."""
    label, colour, dash = LOOKS[kind]
    ax.plot(
        values.index, values, color=colour, linestyle=(0, dash) if dash else "-",
        label=label,
    )  # fmt: skip


def losses(ax: Axes, table: pd.DataFrame) -> None:
    """The smoothed loss of every run."""
    found = smoothed(table)
    for kind in LOOKS:
        for run in (run for run in found.columns if run[:2] == kind):
            line(ax, kind, found[run])
    ax.set(ylabel="loss, nats a token")


def off(ax: Axes, table: pd.DataFrame) -> None:
    """How far the farthest seed of each kind is from torch's, and how far it may be."""
    found = smoothed(table)
    far = apart(found)
    for kind in (kind for kind in LOOKS if kind in far):
        line(ax, kind, far[kind][far[kind] > 0] * 100)  # the first steps may be equal to the bit
    ax.axhline(
        allowed(distances(found)) * 100, color="0.4", linewidth=0.8,
        label=f"allowed: {TIMES:g} times torch's own",
    )  # fmt: skip
    y_axis(ax, log=True)
    ax.set(ylabel="% off torch's loss")


def steps(ax: Axes, table: pd.DataFrame, column: str, unit: float, label: str) -> None:
    """The median of ``column`` over seeds, in ``unit``, without the first steps."""
    timed = table[~table["warm_up"] & ~table["turned"]]
    for operators in timed["operators"].unique():
        mine = timed[timed["operators"] == operators]
        line(ax, (operators, False), mine.groupby("step")[column].median() / unit)
    y_axis(ax)
    ax.set(ylabel=label, xlabel="step")


def panels(table: pd.DataFrame) -> page.Grid:
    """Losses, how far they are from torch's, time, and on a GPU memory: all by step."""
    time = partial(steps, column="step_ms", unit=1, label="ms")
    memory = partial(steps, column="peak_bytes", unit=1e9, label="GB at most")
    seeds = _seeds(table)
    drawn = {
        f"loss, mean of {SMOOTHED} steps: a line for each of {seeds}": losses,
        f"distance from torch's loss, of the farthest of {seeds}": off,
        f"time of a step, median of {seeds}": time,
    }
    if table["peak_bytes"].notna().any():
        drawn[f"memory of a step, median of {seeds}"] = memory
    return [[page.Panel(title, table, draw, in_legend=False)] for title, draw in drawn.items()]


def _seeds(table: pd.DataFrame) -> str:
    count = table["seed"].nunique()
    return f"{count} seed{'s' if count > 1 else ''}"


def words(table: pd.DataFrame) -> list[str]:
    """Parts of a stamp: what was trained, and the verdict."""
    one, found = table.iloc[0], summary(table).set_index(["operators", "turned"])
    parts = [
        f"{one['parameters'] / 1e6:.1f} million parameters, {one['tokens']:,} tokens a step",
        _seeds(table),
        f"one copy of the logits in 16 bits takes {one['logits_bytes'] / 1e9:.2g} GB",
    ]
    for (operators, _), row in found[found["verdict"] != "reference"].iterrows():
        parts.append(WORDS[row["verdict"]].format(operators))
    return parts


WORDS = {
    "same": "the curve of {} is the same as torch's",
    "different": "the curve of {} is another than torch's",
    "open": "whether the curve of {} is torch's is open",
}


def main(
    table: Annotated[Path, typer.Argument(help="training.csv")],
    hardware: Annotated[Path, typer.Option(help="hardware.json of the source")],
    stem: Annotated[Path, typer.Option(help="path of the outputs without their suffix")],
) -> None:
    """Write the figure as STEM.svg, STEM.png and STEM.pdf."""
    with page.plainly():
        data = read(table, TRAINING, "a table of training")
        try:
            said = words(data)
        except BadTable as error:
            raise page.BadInput(f"{table} cannot be drawn: {error}; {ADVICE}") from error
        note = [*said, *page.origin(page.hardware_of(table, hardware)), *outdated(data, TRAINED)]
        page.save(panels(data), " · ".join(note), stem, share_y="row", tall=0.85)


if __name__ == "__main__":
    typer.run(main)
