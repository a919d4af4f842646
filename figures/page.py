"""From panels to files: size, legend, stamp, and the command line that all scripts share.

A figure is a grid of panels.  The blog's svg and png and the paper's pdf come from the same
panels; equal data give equal bytes.
"""

import json
import math
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import matplotlib
import matplotlib.style
import numpy as np
import pandas as pd
import pandera.pandas as pa
import typer
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D

from experiments.hardware import of_sweep
from experiments.launched import BadRecord
from experiments.stale import labelled, stale
from experiments.tables import TIDY, BadTable, read_csv, validated
from figures import overlay
from figures.curves import STOPS
from figures.look import drawn, in_order, look
from kernels.names import slug
from kernels.registry import DTYPES

HERE = Path(__file__).parent
LEAST_BLOCKS = 5  # whose range covers their median in 94 of 100 cases
STALE = "hollow markers are stale: measured with earlier code"


class BadInput(ValueError):
    """What came, what was expected, what to do: one sentence for the user."""


class Panel(NamedTuple):
    """A part of the table and the function that draws it."""

    title: str
    table: pd.DataFrame
    draw: Callable[[Axes, pd.DataFrame], None]
    in_legend: bool = True  # whether the legend names the table's variants
    labels: Mapping[str, str] = MappingProxyType({})  # of those that are called otherwise here


Grid = Sequence[Sequence[Panel]]


@dataclass(frozen=True)
class Medium:
    """Where a figure appears; lengths in inches."""

    style: str
    suffixes: tuple[str, ...]
    full: float
    column: float
    panel: float  # height, with title and tick labels


MEDIA = (
    Medium("blog", ("svg", "png"), full=10.0, column=6.0, panel=2.9),
    Medium("paper", ("pdf",), full=7.0, column=3.33, panel=1.75),
)


# --- Input ------------------------------------------------------------------------------------


def read_tidy(path: Path, sweep: str) -> pd.DataFrame:
    """The rows of a TIDY table of ``sweep`` that figures draw.  Raises BadInput."""
    advice = f"make it with: python -m experiments.tidy --raw raw/{sweep}.csv.gz --out {path}"
    table = read_table(path, advice)
    try:
        table = validated(TIDY, table)
    except BadTable as error:
        raise BadInput(
            f"{path} is not a tidy table (experiments/tables.py): {error}; {advice}"
        ) from error
    table = table[table["variant"].map(drawn)]
    if table.empty:
        raise BadInput(f"{path} holds no row of a variant to draw; expected {sweep}; {advice}")
    if others := sorted(set(table["sweep"]) - {sweep}):
        raise BadInput(f"{path} holds the sweep {', '.join(others)}; expected {sweep}; {advice}")
    return table


def read_table(path: Path, advice: str) -> pd.DataFrame:
    """The table in ``path``.  Raises BadInput."""
    try:
        return read_csv(path)
    except FileNotFoundError as error:
        raise BadInput(f"{path} does not exist; expected a table there; {advice}") from error
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors
        raise BadInput(f"{path} is not a table: {_first_line(error)}; {advice}") from error


def read_valid(path: Path, schema: pa.DataFrameSchema, name: str, advice: str) -> pd.DataFrame:
    """The table in ``path``, which ``schema`` and ``name`` describe.  Raises BadInput."""
    try:
        return validated(schema, read_table(path, advice))
    except BadTable as error:
        raise BadInput(f"{path} is not {name}: {error}; {advice}") from error


def read_hardware(path: Path) -> dict[str, Any]:
    """hardware.json of a source.  Raises BadInput."""
    advice = "take the hardware.json beside the tidy folder, or write one: experiments.hardware"
    try:
        facts = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise BadInput(f"{path} does not exist; expected hardware facts; {advice}") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is not JSON: {_first_line(error)}; {advice}") from error
    wanted = {"source", "gpu", "measured_utc", "mode"}
    if missing := sorted(wanted - set(facts if isinstance(facts, dict) else ())):
        raise BadInput(f"{path} lacks {', '.join(missing)}; expected hardware facts; {advice}")
    return facts


def hardware_of(table: Path, hardware: Path) -> dict[str, Any]:
    """Those facts of ``hardware`` that the file ``table`` beside it was measured with."""
    return of_sweep(read_hardware(hardware), table.name)


def over(archive: Path, table: pd.DataFrame, sweep: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """``table`` over that of the folder ``archive``, and its hardware.  Raises BadInput."""
    recorded = read_tidy(archive / "tidy" / f"{sweep}.csv", sweep)
    facts = of_sweep(read_hardware(archive / "hardware.json"), sweep)
    return overlay.under(table, recorded, facts["gpu"]), facts


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".:")


# --- Stamp ------------------------------------------------------------------------------------


def origin(hardware: dict[str, Any]) -> list[str]:
    """Where data came from: GPU, archive or local, date, mode, versions."""
    source = str(hardware["source"]).split("-")[0]
    device = hardware["gpu"] or hardware.get("cpu") or "CPU"
    parts = [device, source, f"measured {hardware['measured_utc'][:10]}", hardware["mode"]]
    versions = hardware.get("packages", {})
    parts += [f"{p} {versions[p]}" for p in ("torch", "triton") if versions.get(p)]
    return [str(part) for part in parts]


def skipped_dtypes(table: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """By variant, the dtypes in which it did no point and others did: missing, or not made for."""
    done = table[table["status"] != "skipped"]
    did = set(zip(done["variant"], done["dtype"], strict=True))
    dtypes = [dtype for dtype in DTYPES if dtype in set(done["dtype"])]
    asked = table.groupby("variant")["dtype"].agg(set)
    found = {
        name: tuple(d for d in dtypes if d in asked[name] and (name, d) not in did)
        for name in in_order(table["variant"])
    }
    return {name: skipped for name, skipped in found.items() if skipped}


def without_skipped_dtypes(table: pd.DataFrame) -> pd.DataFrame:
    """``table`` without them: lanes of their marks would be most of a panel; the stamp has them."""
    skipped = skipped_dtypes(table)
    return table[[row.dtype not in skipped.get(row.variant, ()) for row in table.itertuples()]]


def idle(skipped: Mapping[str, tuple[str, ...]], every: int) -> list[str]:
    """Parts of a stamp that name the variants ``skipped`` in some of, or in ``every`` dtype."""
    labels: dict[tuple[str, ...], list[str]] = {}
    for name, dtypes in skipped.items():
        labels.setdefault(dtypes, []).append(look(name).label)
    places = {d: "throughout" if len(d) == every else f"in {' and '.join(d)}" for d in labels}
    return [f"skipped {places[d]}: {', '.join(names)}" for d, names in labels.items()]


def staleness(table: pd.DataFrame, hardware: dict[str, Any]) -> pd.Series:
    """Whether each row of ``table`` is stale.  Raises BadInput."""
    try:
        return stale(table, slug(hardware["gpu"] or ""))
    except BadRecord as error:
        raise BadInput(str(error)) from error


def outdated(table: pd.DataFrame, hardware: dict[str, Any]) -> list[str]:
    """A part of a stamp that names the variants with stale rows, if there are any.

    Raises BadInput.
    """
    parts = labelled(staleness(table, hardware), table["variant"])
    labels = [look(name).label + parts[name] for name in in_order(parts)]
    return [f"stale, measured with earlier code: {', '.join(labels)}"] if labels else []


def stamp(hardware: dict[str, Any], table: pd.DataFrame) -> str:
    """Where the data came from, and what a reader must know to trust them."""
    parts = origin(hardware)
    measured = table[table["status"] == "ok"]
    if len(measured):
        few, many = measured["n_blocks"].min(), measured["n_blocks"].max()
        blocks = f"{many} blocks" if few == many else f"{few} to {many} blocks"
        # Of fewer blocks the interval is their range, and covers less than it says: half, of two.
        spread = "95% interval" if many >= LEAST_BLOCKS else "range"
        parts.append(f"median and {spread} of {blocks}")
    for column, word in (("throttled_share", "throttled"), ("contended_share", "contended")):
        if slowed := int((measured[column] > 0).sum()):
            parts.append(f"{slowed} of {len(measured)} points have {word} samples")
    if table["stale"].any():
        parts.append(STALE)
    return " · ".join([*parts, *idle(skipped_dtypes(table), table["dtype"].nunique())])


# --- Output -----------------------------------------------------------------------------------


def compose(
    grid: Grid, note: str, medium: Medium, share_y: Literal["all", "row"], tall: float = 1.0
) -> Figure:
    """The figure of ``grid``: panels above, the legend below them, the stamp at the foot.

    Wants the style of ``medium`` to be in force.
    """
    rows, columns = len(grid), len(grid[0])
    width = medium.full if columns > 1 else medium.column
    figure = Figure(figsize=(width, medium.panel * tall * rows))
    axes = figure.subplots(rows, columns, sharex="all", sharey=share_y, squeeze=False)
    for panels, row in zip(grid, axes, strict=True):
        for panel, ax in zip(panels, row, strict=True):
            panel.draw(ax, panel.table)
            ax.set_title(panel.title)
    for ax in axes.flat:
        ax.label_outer()

    size = 0.75 * matplotlib.rcParams["font.size"]
    lines = _lines(note, int(width * 72 / (0.56 * size)))
    foot = (1.25 * len(lines) + 0.7) * size / 72
    legend = _legend(figure, list(axes.flat), grid, width)
    middle = legend.get_window_extent().height / figure.dpi
    height = medium.panel * tall * rows + middle + foot
    figure.set_size_inches(width, height)
    legend.set_bbox_to_anchor((0.5, foot / height), transform=figure.transFigure)
    figure.text(0.01, 0.4 * size / 72 / height, "\n".join(lines), size=size, color="0.35")
    below = (foot + middle) / height
    _lay_out(figure, (0, below, 1, 1 - below))
    return figure


def _lines(note: str, most: int) -> list[str]:
    """``note`` in lines of ``most`` characters; the dot between parts ends one, and begins none."""
    return [each.replace("\xa0", " ") for each in textwrap.wrap(note.replace(" ·", "\xa0·"), most)]


def _lay_out(figure: Figure, within: tuple[float, float, float, float]) -> None:
    """Place the panels once, to a millionth: the solver's last bits differ from run to run.

    A figure that had a layout engine would be drawn twice for each file.
    """
    ConstrainedLayoutEngine(rect=within).execute(figure)
    for ax in figure.axes:
        ax.set_position(np.round(ax.get_position().bounds, 6).tolist())


def _legend(figure: Figure, axes: list[Axes], grid: Grid, width: float) -> Legend:
    """As few rows as the figure's width allows, evenly filled."""
    tables = [
        overlay.apart(panel.table)[0] for panels in grid for panel in panels if panel.in_legend
    ]
    told = [t for t in tables if "stale" in t]
    fresh = {name for t in told for name in t.loc[~t["stale"], "variant"]}
    hollow = {name for t in told for name in t["variant"]} - fresh
    called = dict(pair for panels in grid for panel in panels for pair in panel.labels.items())
    handles: dict[str, Any] = {}
    for name in in_order(name for table in tables for name in table["variant"]):
        handles[called.get(name, look(name).label)] = look(name).line([], [], hollow=name in hollow)
    handles |= _stop_handles(axes)
    for ax in axes:
        extra, labels = ax.get_legend_handles_labels()
        handles |= dict(zip(labels, extra, strict=True))
    rows = 1
    while True:
        legend = figure.legend(
            list(handles.values()), list(handles), ncols=math.ceil(len(handles) / rows),
            loc="lower center", borderaxespad=0,
            handler_map={tuple: HandlerTuple(ndivide=None)},
        )  # fmt: skip
        fits = legend.get_window_extent().width < (width - 0.1) * figure.dpi
        if fits or rows == len(handles):
            return legend
        legend.remove()
        rows += 1


def _stop_handles(axes: list[Axes]) -> dict[str, tuple[Artist, ...]]:
    """One entry for the marks of points without a time, where there are any."""
    labels = {str(line.get_label()) for ax in axes for line in ax.lines}
    present = [s for s in STOPS if any(label.endswith(f" {s}") for label in labels)]
    marks = tuple(
        Line2D([], [], linestyle="", marker=STOPS[s], color="0.2", markeredgewidth=1.1)
        for s in present
    )
    return {" / ".join(present): marks} if present else {}


def save(
    grid: Grid,
    note: str,
    stem: Path,
    share_y: Literal["all", "row"] = "all",
    tall: float = 1.0,
) -> None:
    """Write stem.svg, stem.png and stem.pdf: the same bytes for the same panels.

    ``tall`` is the height of a panel in those of the medium.
    """
    # fontTools writes a time into the fonts that a pdf embeds.
    os.environ["SOURCE_DATE_EPOCH"] = "0"
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    stem.parent.mkdir(parents=True, exist_ok=True)
    for medium in MEDIA:
        style = HERE / f"{medium.style}.mplstyle"
        # The figure's name as salt keeps ids apart where a page holds several figures.
        with matplotlib.style.context([style, {"svg.hashsalt": stem.name}], after_reset=True):
            _find_font(style)
            figure = compose(grid, note, medium, share_y, tall)
            for suffix in medium.suffixes:
                figure.savefig(stem.with_name(f"{stem.name}.{suffix}"), metadata=dates[suffix])


def _find_font(style: Path) -> None:
    """Raise BadInput where the font in force is missing: another would stand in for it."""
    try:
        findfont(FontProperties(), fallback_to_default=False)
    except ValueError as error:
        family = ", ".join(matplotlib.rcParams["font.family"])
        raise BadInput(
            f"the font {family}, which is asked for by {style.name}, is not installed"
        ) from error


# --- Command line -----------------------------------------------------------------------------


@contextmanager
def plainly() -> Iterator[None]:
    """Turns what a user can mend into one sentence and exit code 2."""
    try:
        yield
    except (BadInput, OSError) as error:
        typer.echo(f"{error}.", err=True)
        raise typer.Exit(2) from error


def main(
    panels: Callable[[pd.DataFrame], Grid],
    sweep: str,
    first: str | Callable[[pd.DataFrame], str] = "",
    share_y: Literal["all", "row"] = "all",
    tall: float = 1.0,
) -> None:
    """The command line of a figure of ``sweep``; the rest as in save.

    ``first``, or what it says of the table, opens the stamp.
    """

    def command(
        tidy: Annotated[Path, typer.Argument(help="tidy table of the sweep")],
        hardware: Annotated[Path, typer.Option(help="hardware.json of the source")],
        stem: Annotated[Path, typer.Option(help="path of the outputs without their suffix")],
        archive: Annotated[Path | None, typer.Option(help="folder of one to lay under it")] = None,
    ) -> None:
        """Write the figure as STEM.svg, STEM.png and STEM.pdf."""
        with plainly():
            table = read_tidy(tidy, sweep)
            asked = {n for row in panels(table) for panel in row for n in panel.table["variant"]}
            facts = of_sweep(read_hardware(hardware), sweep)
            note = [stamp(facts, table[table["variant"].isin(asked)])]
            words = first if isinstance(first, str) else first(table)
            shown = without_skipped_dtypes(table)
            if archive:
                shown, facts = over(archive, shown, sweep)
                note += overlay.words(shown[shown["variant"].isin(asked)], origin(facts))
            save(panels(shown), " · ".join(filter(None, [words, *note])), stem, share_y, tall)

    typer.run(command)
