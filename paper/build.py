"""The paper as PDF: text, figures, and one file of everything that it states in numbers.

    python -m paper.build --folder results/archive-nvidia-h200 --out paper.pdf

Equal data give equal bytes.  What the text asks for and the folder lacks stops the build, by name.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import matplotlib
import typer
import typst

from experiments.claim import read_claims
from experiments.claims import BUILD, read_verdicts, value_text
from experiments.own import PUBLICATION
from experiments.tables import BadTable
from experiments.verdict import VERDICTS
from kernels.registry import ROOT
from paper.facts import BadFact, found, read_facts
from workflow import artifact

HERE = Path(__file__).parent
TEXT, FACTS = HERE / "paper.typ", HERE / "facts.yaml"
# The fonts of the figures are the text's.
FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
FACT = re.compile(r'#(?:fact|cols|least|most)\("([^"]*)"\)')
FIGURE = re.compile(r'#drawn\("([^"]*)"')


class BadPaper(ValueError):
    """The text asks for what is not there."""


def named(pattern: re.Pattern[str], text: str) -> list[str]:
    """What ``text``, but for its comments, asks for by ``pattern``, each once, in order."""
    return list(dict.fromkeys(pattern.findall(re.sub(r"(?m)^//.*", "", text))))


def data(folder: Path, text: str) -> dict[str, Any]:
    """What the text states: facts, claims and sweeps.  Raises BadFact, BadPaper and BadTable."""
    asked = read_facts([FACTS])
    if unknown := [name for name in named(FACT, text) if name not in asked]:
        raise BadPaper(f"{TEXT} prints the fact '{unknown[0]}', which {FACTS} does not ask for")
    every: list[dict[str, Any]] = read_verdicts(folder / "claims.csv").to_dict("records")
    claims = [row for row in every if row["publication"] != PUBLICATION]
    return {
        "figures": {name: _in_root(_figure(name, folder)) for name in named(FIGURE, text)},
        "facts": {
            name: {**fact, "where": asked[name].get("where", {})}
            for name, fact in found(asked, folder).items()
        },
        "claims": [
            {
                **{k: row[k] for k in ("id", "publication", "statement", "verdict")},
                "value": value_text(row),
                "condition": row["condition"],
            }
            for row in claims
        ],
        "counts": counts(claims),
        "verdicts": [word for word in VERDICTS if any(c["verdict"] == word for c in claims)],
        "experiments": experiments(),
        "full_minutes": artifact.full(),
    }


def counts(claims: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """How many claims of each publication have each verdict."""
    told = Counter((claim["publication"], claim["verdict"]) for claim in claims)
    publications = dict.fromkeys(claim["publication"] for claim in claims)
    return {name: {word: told[name, word] for word in VERDICTS} for name in publications}


def experiments() -> list[dict[str, str]]:
    """The experiments of ARTIFACT.md that measure or decide; each has an id here."""
    decided: dict[str, list[str]] = {}
    for claim in read_claims():
        decided.setdefault(artifact.decided_by(claim), []).append(claim.id)
    asked = [e for e in artifact.EXPERIMENTS if e.needs != artifact.ABOVE]
    return [
        {
            "id": f"E{number}",
            "target": experiment.target,
            "needs": experiment.needs.replace("`", ""),
            "minutes": artifact.took(experiment.times),
            "claims": ", ".join(decided.get(experiment.target, ())) or artifact.NONE,
            "varies": artifact.varies(experiment.target),
        }
        for number, experiment in enumerate(asked, start=1)
    ]


def _figure(name: str, folder: Path) -> Path:
    """A figure of the source, or else of the build."""
    paths = [some / "figures" / f"{name}.pdf" for some in (folder, BUILD)]
    if path := next((path for path in paths if path.exists()), None):
        return path
    raise BadPaper(f"{TEXT} shows {paths[0]}, which is missing: snakemake --cores 1 figures")


def _in_root(path: Path) -> str:
    """``path`` as the text has it, whose root is the checkout.  Raises BadPaper."""
    root = ROOT.parent
    if not path.resolve().is_relative_to(root):
        raise BadPaper(f"{path} lies outside of {root}, whose files alone the text can read")
    return f"/{path.resolve().relative_to(root)}"


def build(folder: Path, out: Path, text: Path = TEXT) -> None:
    """Write the paper of one source to ``out``, and what it states beside it, as JSON."""
    stated = out.with_suffix(".json")
    inputs = {"data": _in_root(stated)}  # before anything is written
    stated.parent.mkdir(parents=True, exist_ok=True)
    stated.write_text(json.dumps(data(folder, text.read_text()), indent=1) + "\n")
    try:
        made, warnings = typst.compile_with_warnings(
            str(text), root=str(ROOT.parent), font_paths=[str(FONTS)],
            ignore_system_fonts=True, sys_inputs=inputs,
        )  # fmt: skip
    except typst.TypstError as error:
        raise BadPaper(f"{text}: {str(error).strip().splitlines()[0]}") from error
    if warnings:  # a font that is missing is one: another would stand in for it
        raise BadPaper(f"{text}: {warnings[0].message}")
    assert isinstance(made, bytes)
    out.write_bytes(made)


def main(
    folder: Annotated[Path, typer.Option(help="results/<source>")],
    out: Annotated[Path, typer.Option(help="the PDF")],
) -> None:
    """Build the paper of one source."""
    try:
        build(folder, out)
    except (BadPaper, BadFact, BadTable) as error:
        print(error)
        raise typer.Exit(2) from error
    print(f"the paper: {out}")


if __name__ == "__main__":
    typer.run(main)
