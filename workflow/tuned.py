"""The numbers of docs/operators.md that tuning reached, from the tables that choose kernels."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from experiments.goal import goals
from experiments.markdown import head, line
from kernels.frontier.backward_plans import FOLDER
from kernels.frontier.operators import KINDS, MASKS
from kernels.frontier.select import DEFAULT, TABLES
from kernels.registry import DTYPES, ELEMENT_BYTES

# What tables/ calls the kinds, and what people do.
WORDS = {
    "log": "logarithm", "factors": "factors", "causal": "causal", "chosen": "boolean",
    "added": "additive",
}  # fmt: skip
TOLD_OF = ("bfloat16", "float32")  # float16's are within 0.025 of bfloat16's
WIDTHS = (1024, 4096, *(2**k for k in range(14, 21)))
OF_MASKS, OF_GRADIENTS = "G8.1", "G10.1"  # whose places end at some width
NONE = "–"


def reached(tables: Path = TABLES) -> str:
    """The fastest shapes: of copy's speed for 2MN elements, and with a mask for what they move."""
    lines = head(["columns", *(f"{cols:,}" for cols in WIDTHS)])
    for dtype in TOLD_OF:
        for kind in KINDS:
            known = dict(_of(tables, kind, dtype))
            cells = (_cell(known.get(cols), _moved(kind, dtype)) for cols in WIDTHS)
            lines.append(line([f"{dtype}, {WORDS[kind]}", *cells]))
    return "\n".join(lines)


def runs(tables: Path = TABLES) -> str:
    """The commit that each kind was tuned at."""
    return ", ".join(f"{WORDS[kind]} {_read(tables, kind)['code_commit'][:7]}" for kind in KINDS)


def wide_masks(tables: Path = TABLES) -> str:
    """Where masks that no claim judges are below what it asks for, by what they move."""
    widest, least = _judged(OF_MASKS)
    told = []
    for kind in reversed(MASKS):
        known = {
            dtype: [(cols, value * _moved(kind, dtype)) for cols, value in _of(tables, kind, dtype)]
            for dtype in DTYPES
        }
        if short := _short(known, widest, least):
            told.append(f"{WORDS[kind]}: {short}")
    return "; ".join(told)


def wide_gradients(tables: Path = TABLES) -> str:
    """The same of gradients, of ``torch.add``'s speed."""
    known = {dtype: list(_of(tables, FOLDER, dtype, "fraction_of_add")) for dtype in DTYPES}
    return _short(known, *_judged(OF_GRADIENTS))


def _short(known: dict[str, list[tuple[int, float]]], widest: int, least: float) -> str:
    """By dtype: from which width beyond ``widest`` on all are below ``least``, and their range."""
    told = []
    for dtype, entries in known.items():
        below = []
        for cols, value in sorted(entries, reverse=True):
            if cols <= widest or value >= least:
                break
            below.append((cols, value))
        if below:
            values = [f"{value:.2f}" for value in sorted(value for _, value in below)]
            between = " to ".join(dict.fromkeys((values[0], values[-1])))  # one, if equal
            told.append(f"{dtype} {between} from {below[-1][0]:,} on")
    return ", ".join(told)


def _cell(fraction: float | None, moved: float) -> str:
    if fraction is None:
        return NONE
    return f"{fraction:.3f}" + (f" ({fraction * moved:.2f})" if moved != 1 else "")


def _moved(kind: str, dtype: str) -> float:
    """Bytes over those of 2MN elements, with a mask as large as the input."""
    match kind:
        case "causal":  # half of the input is seen
            return 0.75
        case "chosen":
            return 1 + 1 / (2 * ELEMENT_BYTES[dtype])
        case "added":
            return 1.5
    return 1.0


def _judged(claim: str) -> tuple[int, float]:
    """The widest place of a claim, and what it asks for."""
    mine = [goal for goal in goals() if goal.claim == claim]
    return max(goal.point.cols for goal in mine), mine[0].least


def _of(
    tables: Path, folder: str, dtype: str, column: str = "fraction_of_copy"
) -> Iterator[tuple[int, float]]:  # fmt: skip
    """Columns, and what the fastest shape reached there."""
    for entry in _read(tables, folder)["entries"]:
        if entry["dtype"] == dtype:
            yield entry["cols"], entry[column]


@cache
def _read(tables: Path, folder: str) -> Any:
    return json.loads((tables / folder / f"{DEFAULT}.json").read_text())
