"""The explorer's data: the tidy tables in columns, small enough to stand in the page."""

import importlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path
from matplotlib.transforms import Affine2D

from figures.look import drawn, in_order, look
from paper.blog.contents import SWEEPS
from paper.blog.inputs import BadPage, Inputs

CODES = ("variant", "timer", "dtype", "status", "reason")
NUMBERS = (
    "median_us", "ci_low_us", "ci_high_us", "useful_gbps", "fraction_of_copy", "fraction_low",
    "fraction_high", "speedup_vs_torch", "speedup_low", "speedup_high",
)  # fmt: skip
DIGITS = 4
STILL = ("copy", "torch_eager", "triton_row", "triton_online", "frontier")
# How SVG calls the parts of a matplotlib path.
COMMANDS = {
    Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z",
}  # fmt: skip


def data(inputs: Inputs) -> dict[str, Any]:
    """Sweeps, each a table in columns, and how every variant looks."""
    sweeps = {name: _columns(inputs.tidy(name), name) for name in SWEEPS}
    names = in_order(v for s in sweeps.values() for v in s["codes"]["variant"])
    return {"sweeps": sweeps, "looks": {name: _look(name) for name in names}}


def packed(found: Mapping[str, Any]) -> str:
    """``found`` as JSON that may stand inside a script element."""
    return json.dumps(found, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")


def still(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Rows for readers without scripts: variants of the first sweep in float32."""
    table = found["sweeps"][SWEEPS[0]]
    column = {name: [table["codes"][name][i] for i in table["at"][name]] for name in CODES}
    rows = []
    order = sorted(
        range(len(table["cols"])), key=lambda i: (table["at"]["variant"][i], table["cols"][i])
    )
    for i in order:
        cols = table["cols"][i]
        value = table["fraction_of_copy"][i]
        wanted = column["variant"][i] in STILL and column["dtype"][i] == "float32"
        if not wanted or cols & (cols - 1):
            continue
        # A point without a time has its reason where the number would be.
        told = f"{value:.3g}" if value is not None else column["reason"][i]
        time = table["median_us"][i]
        us = f"{time:,.1f}" if time is not None else column["status"][i]
        rows.append((look(column["variant"][i]).label, f"{cols:,}", us, told))
    if not rows:
        raise BadPage(f"tidy/{SWEEPS[0]}.csv has no row of {', '.join(STILL)} in float32")
    return rows


def _columns(table: pd.DataFrame, sweep: str) -> dict[str, Any]:
    """``table`` in columns; ``line`` is where a row stands in its file, the header being 1."""
    table = table.assign(line=range(2, len(table) + 2))
    table = table[table["variant"].map(drawn)]
    if table.empty:
        raise BadPage(f"tidy/{sweep}.csv has no row of a variant to draw")
    codes, at = {}, {}
    for name in CODES:
        numbers, values = pd.factorize(table[name])
        codes[name], at[name] = [str(v) for v in values], [int(n) for n in numbers]
    # A sweep's file starts with its question.
    question = (importlib.import_module(f"experiments.sweeps.{sweep}").__doc__ or "").split("\n")[0]
    return {
        "question": question, "codes": codes, "at": at,
        **{name: [int(v) for v in table[name]] for name in ("rows", "cols", "line")},
        "stale": [int(v) for v in table["stale"]],
        **{name: [_rounded(v) for v in table[name]] for name in NUMBERS},
    }  # fmt: skip


def _rounded(value: float) -> float | None:
    """``value`` with DIGITS digits; None where there is none."""
    if not math.isfinite(value):
        return None
    number = float(f"{value:.{DIGITS}g}")
    return int(number) if number.is_integer() else number


def _look(variant: str) -> dict[str, Any]:
    style = look(variant)
    return {
        "label": style.label, "colour": style.colour, "dash": list(style.dash),
        "marker": _marker(style.marker) if style.marker else None,
    }  # fmt: skip


def _marker(marker: Any) -> dict[str, Any]:
    """Matplotlib's ``marker`` of size 1 around (0, 0), as a path of SVG: the figures' own shape."""
    style = MarkerStyle(marker)
    # Up is down in SVG.
    place = style.get_transform() + Affine2D().scale(1, -1)
    parts = style.get_path().transformed(place).iter_segments(simplify=False)
    path = "".join(COMMANDS[c] + ("" if c == Path.CLOSEPOLY else _points(v)) for v, c in parts)
    return {"path": path, "filled": bool(style.is_filled()), "join": style.get_joinstyle()}


def _points(values: Iterable[float]) -> str:
    """Coordinates: of a marker ten pixels wide a thousandth is more than a screen shows."""
    return " ".join(f"{value:.3f}".rstrip("0").rstrip(".") for value in values)
