"""The paper states numbers of the data alone, cites what it lists, and discusses its figures."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from paper import build
from tests.commands import ROOT

TEXT = build.TEXT.read_text()
BIBLIOGRAPHY = (ROOT / "paper" / "references.bib").read_text()
# Names that have digits, and no number that was measured.
NAMES = re.compile(r"\b(?:S[1-5]|L2|b?float(?:16|32|64)|\d+-byte|16 bytes|H200)\b")
# What a reader of the page does not see: calls, references, labels, comments, mathematics.
UNSEEN = re.compile(r'#\w+\("[^"]*"[^)]*\)|@[\w-]+|<[\w-]+>|(?m:^//.*)|\$[^$]*\$')


def section(text: str, title: str) -> str:
    """What stands under the heading ``title``, with its subsections."""
    _, found, rest = text.partition(f"\n= {title}")
    assert found, title
    return re.split(r"\n= ", rest)[0]


def typed(text: str) -> list[str]:
    """The words of results with digits that somebody typed."""
    seen = NAMES.sub("", UNSEEN.sub("", section(text, "Results")))
    captions = re.sub(r"512 MiB", "", seen)  # of the sweep's tensors
    return re.findall(r"\S*\d\S*", captions)


def test_no_number_of_the_results_was_typed():
    assert typed(TEXT) == []
    planted = TEXT.replace("*Few rows* (", "*Few rows* are 1.25 times as fast (")
    assert planted != TEXT
    assert typed(planted) == ["1.25"]


def test_every_reference_is_cited_and_every_figure_is_discussed():
    listed = set(re.findall(r"^@\w+\{([\w]+),", BIBLIOGRAPHY, re.MULTILINE))
    mentioned = set(re.findall(r"@([\w-]+)", TEXT))
    assert len(listed) > 10
    assert listed <= mentioned, listed - mentioned
    labels = set(re.findall(r"<(fig-[\w-]+)>", TEXT))
    assert len(labels) == len(build.named(build.FIGURE, TEXT)) > 5
    assert labels <= mentioned, labels - mentioned


def test_every_fact_that_is_asked_for_is_printed():
    asked = set(build.read_facts([build.FACTS]))
    printed = set(build.named(build.FACT, TEXT))
    assert printed <= asked, printed - asked
    assert asked <= printed, asked - printed


def test_each_claim_is_decided_by_one_experiment():
    rows = build.experiments()
    decided = [name for row in rows for name in row["claims"].split(", ") if name.startswith("C")]
    assert sorted(decided) == [claim.id for claim in build.read_claims()]
    assert [row["id"] for row in rows] == [f"E{number}" for number in range(1, len(rows) + 1)]
    assert all(float(row["minutes"]) > 0 for row in rows if row["needs"] == "GPU")


def test_claims_are_counted_by_publication_and_verdict():
    claims = [{"publication": "S1", "verdict": v} for v in ("supported", "refuted", "refuted")]
    told = build.counts(claims)["S1"]
    assert (told["supported"], told["refuted"], told["inconclusive"]) == (1, 2, 0)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source of one fact, one claim and one figure, inside a checkout of its own."""
    root = tmp_path / "checkout"
    (root / "paper").mkdir(parents=True)
    for name in ("look.typ", "references.bib"):
        (root / "paper" / name).write_text((ROOT / "paper" / name).read_text())
    (root / "paper" / "facts.yaml").write_text("gpu: {table: hardware.json, key: gpu, as: text}\n")
    folder = root / "results" / "archive-x"
    (folder / "figures").mkdir(parents=True)
    (folder / "hardware.json").write_text(json.dumps({"gpu": "A card"}))
    monkeypatch.setattr(build, "FACTS", root / "paper" / "facts.yaml")
    monkeypatch.setattr(build, "ROOT", root / "kernels")
    monkeypatch.setattr(build, "BUILD", root / "results" / "build")
    monkeypatch.setattr(build, "read_verdicts", lambda _: pd.DataFrame())
    return folder


def write(folder: Path, words: str) -> Path:
    text = folder.parents[1] / "paper" / "text.typ"
    text.write_text(f'#import "look.typ": *\n#show: paper.with(title: [A title])\n{words}\n')
    return text


def test_equal_data_give_equal_bytes(made: Path):
    text, out = write(made, '#fact("gpu") moves.'), made / "paper.pdf"
    build.build(made, out, text)
    first = out.read_bytes()
    build.build(made, out, text)
    assert out.read_bytes() == first
    assert first.startswith(b"%PDF")
    assert json.loads((made / "paper.json").read_text())["facts"]["gpu"]["text"] == "A card"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ('#fact("speed")', "prints the fact 'speed', which .* does not ask for"),
        ('#drawn("nowhere")[A figure.]', "shows .*nowhere.pdf, which is missing"),
        ("#nothing", "unknown variable: nothing"),
        ('#text(font: "No Such Font")[words]', "unknown font family: no such font"),
    ],
)
def test_what_is_missing_is_named(made: Path, words: str, said: str):
    with pytest.raises(build.BadPaper, match=said):
        build.build(made, made / "paper.pdf", write(made, words))


def test_a_paper_outside_of_the_checkout_is_refused_before_anything_is_written(
    made: Path, tmp_path: Path
):
    with pytest.raises(build.BadPaper, match="lies outside of"):
        build.build(made, tmp_path / "paper.pdf", write(made, '#fact("gpu")'))
    assert {path.name for path in tmp_path.iterdir()} == {"checkout"}
