"""The table of goals at their places and what came of each, and how people read it."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa

from experiments.markdown import head, line
from experiments.tables import read_judged

OUTCOMES = ("met", "missed", "open", "stale", "unknown", "no goal")
# Places told one by one, by the title of their table.
LISTED = {
    "Not met": ("missed", "open"),
    "Measured with earlier code, which counts for nothing": ("stale",),
}
WORDS = (
    "A goal is met where the whole 95% interval over blocks lies where it shall, missed where none "
    "of it does, and open where it reaches across, or is that of a single block; speeds are formed "
    "inside a block."
)

_text = pa.Column(str, coerce=True)
_real = pa.Column(float, coerce=True, nullable=True)
# One row a goal and place: results/<source>/goals.csv.
GOALS = pa.DataFrameSchema(
    {
        "source": _text,
        "claim": _text,
        "goal": pa.Column(int, pa.Check.ge(1), coerce=True),
        "statement": _text,
        "measured": _text,
        "place": _text,
        "dtype": _text,
        "rows": pa.Column(int, coerce=True),
        "cols": pa.Column(int, coerce=True),
        "value": _real,
        "low": _real,
        "high": _real,
        "noise": _real,
        "least": _real,
        "most": _real,
        "outcome": pa.Column(str, pa.Check.isin(OUTCOMES), coerce=True),
        "note": _text,
    },
    strict=True,
    ordered=True,
)


def read_outcomes(path: Path) -> pd.DataFrame:
    """The GOALS table in ``path``.  Raises BadTable where it is none."""
    return read_judged(path, GOALS, "outcomes")


def markdown(table: pd.DataFrame) -> str:
    """A GOALS table for people: a line a claim, then every place where one is not met.

    What is stale comes after what is missed, which it would hide.
    """
    source = table["source"].iloc[0]
    heads = ["id", "what", "shall be", "places", *OUTCOMES, "reached"]
    lines = [f"Goals on {source}: {told(table)}.", "", WORDS, "", *head(heads)]
    for (claim, statement, shall), mine in by_claim(table):
        counts = mine["outcome"].value_counts()
        cells = [claim, statement, shall, len(mine), *(counts.get(word, 0) for word in OUTCOMES)]
        lines.append(line([*cells, reached(mine)]))
    for title, words in LISTED.items():
        some = table[table["outcome"].isin(words)]
        if len(some):
            heads = ["id", "what", "where", "reached", "shall be", "noise", "", ""]
            lines += ["", f"{title}:", "", *head(heads)]
        for (claim, statement, shall), mine in by_claim(some):
            for row in mine.to_dict("records"):
                cells = [claim, statement, where(row), interval_text(row), shall]
                cells += [f"{row['noise']:.1%}", f"**{row['outcome']}**", row["note"]]
                lines.append(line(cells))
    for word in ("unknown", "no goal"):
        some = table[table["outcome"] == word]
        if len(some):
            lines += ["", f"{word.capitalize()}:", "", *head(["id", "what", "places", "why"])]
        for key, mine in some.groupby(["claim", "statement", "note"], sort=False):
            claim, statement, why = key
            lines.append(line([claim, statement, len(mine), why]))
    return "\n".join(lines) + "\n"


def by_claim(table: pd.DataFrame) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    """The rows of each claim, under its id, its statement and what shall be."""
    shall = [_shall(least, most) for least, most in zip(table["least"], table["most"], strict=True)]
    yield from table.groupby(["claim", "statement", pd.Series(shall, table.index)], sort=False)


def _shall(least: float, most: float) -> str:
    if math.isinf(most):
        return f"at least {least:g}"
    return f"{least:g} to {most:g}" if math.isfinite(least) else f"at most {most:g}"


def told(table: pd.DataFrame) -> str:
    """How many places have each outcome, as '3 met, 1 open'."""
    counts = table["outcome"].value_counts()
    return ", ".join(f"{counts[word]} {word}" for word in OUTCOMES if word in counts)


def reached(table: pd.DataFrame) -> str:
    """The least and the most value."""
    return between(table["value"].min(), table["value"].max())


def between(least: float, most: float) -> str:
    """Two values, as '0.97 to 1.02'; a dash where there are none."""
    return "–" if math.isnan(least) else f"{least:.3f} to {most:.3f}"


def interval_text(row: dict[str, Any]) -> str:
    """The value and its interval, as '1.027 [1.025, 1.030]'."""
    return f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


def where(row: dict[str, Any]) -> str:
    """Point and layout of a row, or what was measured there."""
    point = f"{row['dtype']} {row['rows']:,} x {row['cols']:,}" if row["dtype"] else ""
    return ", ".join(filter(None, (point, row["place"] or row["measured"])))
