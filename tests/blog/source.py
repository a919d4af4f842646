"""A small source to build the page from: what is recorded, and tables shaped like measurements."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import yaml

from experiments.claim import read_claims
from experiments.claims import CLAIMS
from experiments.tables import read_raw
from experiments.tidy import tidy
from paper.blog import contents
from paper.blog.inputs import Inputs, read_facts
from tests.commands import ROOT
from tests.figures.conftest import tidy_of

ARCHIVE = ROOT / "experiments" / "archive" / "nvidia-h200"
FACTS = ROOT / "paper" / "blog" / "facts.yaml"
FIGURE = (
    '<svg viewBox="0 0 720 300"><defs><path id="m1" d="M 0 0 L 3 3"/></defs><g id="figure_1">'
    '<path d="M 0 300 L 720 300 L 720 0 L 0 0 z" style="fill: #ffffff"/>'
    '<use href="#m1" x="10.123456" y="20"/></g></svg>'
)


def claims() -> pd.DataFrame:
    """A CLAIMS table with a verdict for every claim there is."""
    rows = [
        {
            "source": "archive-nvidia-h200", "id": c.id, "publication": c.publication,
            "place": c.place, "statement": c.statement, "kind": c.measure.kind, "measured": "it",
            "condition": "above 1", "carries_over": True, "value": 1.5, "low": 1.4, "high": 1.6,
            "noise": 0.01, "n_points": 1, "n_asked": 1, "n_blocks": 5, "verdict": "supported",
            "reason": "", "archived": "",
        }
        for c in read_claims()
    ]  # fmt: skip
    return CLAIMS.validate(pd.DataFrame(rows))


def asked() -> list[str]:
    """The facts that the post's text asks for."""
    texts = [path.read_text() for path in contents.files()]
    return [name for text in texts for name in re.findall(r'fact\("(\w+)"\)', text)]


def make(folder: Path) -> None:
    """Fill ``folder`` with all that the page is built from."""
    for sub in ("tidy", "raw", "figures"):
        (folder / sub).mkdir()
    for sweep in contents.SWEEPS:
        tidy_of(sweep, "quick").to_csv(folder / "tidy" / f"{sweep}.csv", index=False)
    # The ladder forms its ratios inside blocks: of this sweep the samples are needed too.
    raw = ARCHIVE / "raw" / "cuda_ladder.csv.gz"
    shutil.copy(raw, folder / "raw")
    tidy(read_raw(raw)).to_csv(folder / "tidy" / "cuda_ladder.csv", index=False)
    for name in ("hardware.json", "profile.csv"):
        shutil.copy(ARCHIVE / name, folder)
    claims().to_csv(folder / "claims.csv", index=False)
    for name in contents.figures():
        (folder / "figures" / f"{name}.svg").write_text(FIGURE)
    names = yaml.safe_load(FACTS.read_text())
    fact = {"text": "0.987", "value": 0.987, "low": 0.98, "high": 0.99}
    facts = {name: {**fact, "stale": i % 9 == 0} for i, name in enumerate(names)}
    (folder / "facts.json").write_text(json.dumps(facts))


def inputs(folder: Path) -> Inputs:
    """What make left in ``folder``."""
    return Inputs(folder, folder, folder / "profile.csv", read_facts(folder / "facts.json"))
