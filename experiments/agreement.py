"""Do the verdicts of a run measured here agree with the archive's?  Claim by claim, goal by goal.

    python -m experiments.agreement --here results/local-nvidia-a100 \
        --archive results/archive-nvidia-h200 --out agreement.md

agree              both decide, and alike
differ             one supports, or meets, what the other refutes, or misses
undecided          one of them does not decide
same build         of compiled code, which is that of this checkout on both sides
not measured here  not in the archive
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from experiments.claims import by_author, read_verdicts, value_text, verdict_text
from experiments.markdown import head, line
from experiments.outcomes import by_claim, interval_text, reached, read_outcomes, told, where
from experiments.tables import BadTable

DECIDED = ("supported", "refuted", "met", "missed")
AGREE, DIFFER, UNDECIDED, BUILD = "agree", "differ", "undecided", "same build"
NOT_HERE, NOT_ARCHIVED = "not measured here", "not in the archive"
WORDS = (AGREE, DIFFER, UNDECIDED, BUILD, NOT_HERE, NOT_ARCHIVED)
OF_GOALS = tuple(word for word in WORDS if word != BUILD)
CLAIM = ["id"]
PLACE = ["claim", "statement", "measured", "place", "dtype", "rows", "cols", "least", "most"]

Pair = tuple[pd.DataFrame, pd.DataFrame]
Read = Callable[[Path], pd.DataFrame]


def read_pair(read: Read, here: Path, archive: Path, keys: list[str]) -> Pair:
    """Both tables, row by row of the same.  Raises BadTable where they are not."""
    tables = read(here), read(archive)
    if not tables[0][keys].equals(tables[1][keys]):
        raise BadTable(f"{here} judges something else than {archive}: make both anew")
    return tables


def agreement(here: pd.DataFrame, archive: pd.DataFrame, word: str) -> pd.Series:
    """One of WORDS a row; ``word`` is the column of what was decided."""
    mine, theirs = here[word], archive[word]
    cases = {
        NOT_HERE: here["value"].isna(),
        NOT_ARCHIVED: archive["value"].isna(),
        UNDECIDED: ~(mine.isin(DECIDED) & theirs.isin(DECIDED)),
        AGREE: mine == theirs,
    }
    return pd.Series(np.select(list(cases.values()), list(cases), DIFFER), here.index)


def of_claims(here: pd.DataFrame, archive: pd.DataFrame) -> list[str]:
    """The CLAIMS tables of both as lines of Markdown: the publications' claims, then our own."""
    found = agreement(here, archive, "verdict").mask(here["kind"] == "resource", BUILD)
    lines: list[str] = []
    for whose, mine in by_author(here):
        lines += [""] * bool(lines)
        lines += _of_some(mine, archive.loc[mine.index], found[mine.index], whose)
    return lines


def _of_some(here: pd.DataFrame, archive: pd.DataFrame, found: pd.Series, whose: str) -> list[str]:
    heads = ["id", "claim", "holds if", _source(here), "verdict", _source(archive), "verdict", ""]
    apart = here.loc[found == DIFFER, "id"]
    named = [f"They differ on {', '.join(apart)}."] if len(apart) else []
    lines = [" ".join([f"{len(here)} claims{whose}: {_counts(found)}.", *named]), "", *head(heads)]
    sides = here.to_dict("records"), archive.to_dict("records")
    for mine, theirs, word in zip(*sides, found, strict=True):
        cells = [mine["id"], mine["statement"], mine["condition"]]
        cells += [text(row) for row in (mine, theirs) for text in (value_text, verdict_text)]
        lines.append(line([*cells, _stressed(word)]))
    return lines


def of_goals(here: pd.DataFrame, archive: pd.DataFrame) -> list[str]:
    """The GOALS tables of both as lines of Markdown: a line a claim, then where they differ."""
    found = agreement(here, archive, "outcome")
    sides = [_source(here), "reached", _source(archive), "reached"]
    lines = [f"{len(here)} places of goals: {_counts(found)}.", ""]
    lines += head(["id", "what", "shall be", "places", *sides, *OF_GOALS])
    apart: list[str] = []
    for (claim, statement, shall), mine in by_claim(here):
        theirs, words = archive.loc[mine.index], found[mine.index]
        cells = [claim, statement, shall, len(mine)]
        cells += [text(side) for side in (mine, theirs) for text in (told, reached)]
        lines.append(line([*cells, *((words == word).sum() for word in OF_GOALS)]))
        differ = words == DIFFER
        rows = mine[differ].to_dict("records"), theirs[differ].to_dict("records")
        for row, other in zip(*rows, strict=True):
            cells = [claim, statement, where(row), shall]
            for side in (row, other):
                cells += [interval_text(side), f"**{side['outcome']}**"]
            apart.append(line(cells))
    if apart:
        heads = ["id", "what", "where", "shall be", sides[0], "", sides[2], ""]
        lines += ["", "Where they differ:", "", *head(heads), *apart]
    return lines


def _source(table: pd.DataFrame) -> str:
    return table["source"].iloc[0]


def _counts(found: pd.Series) -> str:
    counts = found.value_counts()
    return ", ".join(f"{counts[word]} {word}" for word in WORDS if word in counts)


def _stressed(word: str) -> str:
    return f"**{word}**" if word == DIFFER else word


def markdown(claims: Pair, goals: Pair) -> str:
    """The page: CLAIMS and GOALS of the run, each with the archive's."""
    here, archive = map(_source, claims)
    lines = [
        f"What {here} says, beside {archive}.",
        "",
        "They agree or differ where both decide: supported or refuted, met or missed. What is "
        "judged by compiled code alone is of the same build.",
        "",
        *of_claims(*claims),
        "",
        *of_goals(*goals),
    ]
    return "\n".join(lines) + "\n"


def main(
    here: Annotated[Path, typer.Option(help="folder of the run, with claims.csv and goals.csv")],
    archive: Annotated[Path, typer.Option(help="folder of the archive, with the same")],
    out: Annotated[Path, typer.Option(help="what agrees and what differs as Markdown")],
) -> None:
    """Lay the verdicts of a run beside those of an archive."""
    try:
        claims = read_pair(read_verdicts, here / "claims.csv", archive / "claims.csv", CLAIM)
        goals = read_pair(read_outcomes, here / "goals.csv", archive / "goals.csv", PLACE)
    except BadTable as error:
        print(error)
        raise typer.Exit(2) from error
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(markdown(claims, goals))


if __name__ == "__main__":
    typer.run(main)
