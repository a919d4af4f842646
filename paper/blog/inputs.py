"""What the page is made of, read so that whatever is missing is named in one sentence."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.claims import read_verdicts
from experiments.counts import read_counts, whole
from experiments.launched import BadRecord
from experiments.tables import TIDY, BadFile, read_csv, validated
from figures.page import BadInput, read_hardware

FACT_KEYS = {"text", "value", "low", "high", "stale"}


class BadPage(ValueError):
    """The page cannot be built: what is missing, and how to make it."""


@dataclass(frozen=True)
class Inputs:
    """The files of one source; ``build`` has figures of compiled code, ``profile`` counts of ncu.

    ``profile`` may be another source's: not every machine lets its GPU's counters be read.
    """

    folder: Path
    build: Path
    profile: Path
    facts: Mapping[str, Mapping[str, Any]] = field(repr=False)

    @property
    def figure_folders(self) -> tuple[Path, ...]:
        """Where a figure may lie; the first that has it counts."""
        return (self.folder / "figures", self.build / "figures", self.profile.parent / "figures")

    def figure(self, name: str) -> str:
        """The SVG of figure ``name``."""
        for folder in self.figure_folders:
            if (path := folder / f"{name}.svg").is_file():
                return path.read_text()
        searched = ", ".join(str(folder) for folder in dict.fromkeys(self.figure_folders))
        raise BadPage(
            f"figure '{name}' is missing: no {name}.svg in {searched}; make it with: "
            "snakemake --cores 1 blog"
        )

    def fact(self, name: str) -> Mapping[str, Any]:
        """Fact ``name``: its text, value and interval, and whether it is stale."""
        if name not in self.facts:
            raise BadPage(f"fact '{name}' is missing; add it to paper/blog/facts.yaml")
        fact = self.facts[name]
        if missing := sorted(FACT_KEYS - set(fact)):
            raise BadPage(f"fact '{name}' lacks {', '.join(missing)}")
        if not str(fact["text"]).strip() or fact["text"] == "nan":
            raise BadPage(f"fact '{name}' is empty: its row has no such number")
        return fact

    def tidy(self, sweep: str) -> pd.DataFrame:
        """The TIDY table of ``sweep``, in the order of its file."""
        path = self.folder / "tidy" / f"{sweep}.csv"
        return _read(path, _read_tidy, f"tidy table of '{sweep}'", sweep)

    @cached_property
    def claims(self) -> pd.DataFrame:
        """The verdicts: the table CLAIMS."""
        return _read(self.folder / "claims.csv", read_verdicts, "table of claims", "claims")

    @cached_property
    def counts(self) -> pd.DataFrame:
        """What ncu counted of whole tensors: the table PROFILE, and whether each row is stale."""
        return whole(_read(self.profile, read_counts, "table of counts", "profile"))

    def hardware(self) -> dict[str, Any]:
        """Static facts of the machine that measured."""
        try:
            return read_hardware(self.folder / "hardware.json")
        except BadInput as error:
            raise BadPage(str(error)) from error


def _read_tidy(path: Path) -> pd.DataFrame:
    return validated(TIDY, read_csv(path))


def _read(path: Path, read: Callable[[Path], pd.DataFrame], what: str, target: str) -> pd.DataFrame:
    try:
        return read(path)
    except (BadFile, BadRecord) as error:
        raise BadPage(str(error)) from error
    except (OSError, ValueError) as error:  # pandas' own and BadTable are ValueErrors
        raise BadPage(
            f"the {what} is missing or broken ({path}: {first_line(error)}); "
            f"make it with: snakemake --cores 1 {target}"
        ) from error


def read_facts(path: Path) -> dict[str, Any]:
    """The facts of a source by name, as paper/facts.py writes them."""
    advice = "make it with: snakemake --cores 1 blog"
    try:
        facts = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise BadPage(f"{path} does not exist; expected the facts of a source; {advice}") from error
    except (OSError, ValueError) as error:
        raise BadPage(f"{path} is not JSON: {first_line(error)}; {advice}") from error
    if not isinstance(facts, dict) or not all(isinstance(f, dict) for f in facts.values()):
        raise BadPage(f"{path} is no table of facts by name; {advice}")
    return facts


def first_line(error: Exception) -> str:
    """The first line of ``error``, without its full stop."""
    return str(error).strip().splitlines()[0].rstrip(".:")


def only(table: pd.DataFrame, name: str, **where: object) -> pd.Series:
    """The one row of ``table`` (called ``name``) with these values."""
    found = table
    for column, value in where.items():
        found = found[found[column] == value]
    if len(found) != 1:
        wanted = ", ".join(f"{k} {v}" for k, v in where.items())
        raise BadPage(f"{name} has {len(found)} rows with {wanted}; expected one")
    return found.iloc[0]
