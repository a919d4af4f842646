"""README.md, ARTIFACT.md and docs/ say what the archive and docs/verdicts.md say."""

from pathlib import Path

import pytest

from experiments.claim import read_claims
from experiments.goal import COMPARED
from figures import (
    FAMILY_FIGURES,
    FIGURES,
    OPERATOR_FIGURES,
    TABLE_FIGURES,
    TRANSFORMER_FIGURES,
)
from workflow import artifact
from workflow.artifact import (
    BLOCKS,
    EXPERIMENTS,
    BadVerdicts,
    claims_summary,
    decided_by,
    own,
    verdicts,
)
from workflow.documents import DOCUMENTS, BadDocument, filled, parts, refill
from workflow.machine import ROOT
from workflow.tables import PROFILE_FIGURES

TARGETS = {experiment.target for experiment in EXPERIMENTS}
TOLD = {"one": lambda: "new", "two": lambda: "| a |"}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_up_to_date(name: str):
    text = (ROOT / name).read_text()
    assert filled(text, BLOCKS) == text, "make docs writes it anew"


def test_every_part_is_shown():
    shown = [part for name in DOCUMENTS for part in parts((ROOT / name).read_text())]
    assert sorted(shown) == sorted(BLOCKS)


def test_parts_in_lines_and_of_lines():
    text = "it took <!-- begin one -->old<!-- end one --> s\n<!-- begin two -->\n<!-- end two -->\n"
    once = filled(text, TOLD)
    assert "it took <!-- begin one -->new<!-- end one --> s\n" in once
    assert once.endswith("<!-- begin two -->\n| a |\n<!-- end two -->\n")
    assert filled(once, TOLD) == once


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- begin three --><!-- end three -->", "unknown part 'three'; known: one, two"),
        ("<!-- begin one -->", "'<!-- begin one -->' has no other half"),
        ("<!-- begin one --><!-- end two -->", "'<!-- begin one -->' has no other half"),
        ("<!-- end one --><!-- begin one -->", "'<!-- end one -->' has no other half"),
    ],
)
def test_markers_that_cannot_be_followed(text: str, message: str, tmp_path: Path):
    path = tmp_path / "README.md"
    path.write_text(text)
    with pytest.raises(BadDocument, match=f"README.md: {message}"):
        refill(path, TOLD)
    assert path.read_text() == text


def test_what_is_out_of_date_is_written_once(tmp_path: Path):
    path = tmp_path / "README.md"
    path.write_text("<!-- begin one -->old<!-- end one -->")
    assert refill(path, TOLD)
    assert not refill(path, TOLD)


def test_every_claim_is_decided_by_an_experiment():
    assert {decided_by(claim) for claim in read_claims()} <= TARGETS


def test_every_figure_belongs_to_an_experiment():
    drawn = [made for e in EXPERIMENTS for made in e.makes if not Path(made).suffix]
    of_sweeps = [figure for figure, sweep in FIGURES.items() if sweep != "smoke"]
    by_name = (*PROFILE_FIGURES, *OPERATOR_FIGURES, *TRANSFORMER_FIGURES, *FAMILY_FIGURES)
    build = ("resources", "regimes")
    assert sorted(drawn) == sorted([*of_sweeps, *TABLE_FIGURES, *by_name, *build])


def test_verdicts_are_read_as_they_are_written():
    found = verdicts()
    published = {claim.id for claim in read_claims()}
    assert found.keys() == published | own().keys()
    assert not published & own().keys()
    lines = (ROOT / "docs" / "verdicts.md").read_text().splitlines()
    (mine,) = (line for line in lines if " claims of our own on " in line)
    for said, names in ((lines[0], published), (mine, own().keys())):
        count = sum(found[name].verdict == "supported" for name in names)
        assert said.startswith(f"{len(names)} claims")
        assert f" {count} supported" in said


def test_our_own_claims_are_no_publications():
    rows = {line.split(" | ")[0]: line.split(" | ")[1] for line in claims_summary().splitlines()}
    assert rows["| all publications"] == str(len(read_claims()))
    assert rows["| our own"] == str(len(own()))


def test_every_claim_of_our_own_is_decided_by_experiments():
    decided = own()
    assert {name for names in decided.values() for name in names} <= TARGETS
    assert decided["G1.6"] == ("figures",)
    assert decided["G6.2"] == ("sanitize",)
    assert decided["G13.1"] == ("family",)
    assert decided["G16.1"] == ("transformer",)
    assert set(decided["G2.1"]) == set(COMPARED)


@pytest.mark.parametrize(
    ("text", "message"),
    [("| C01 | S1 | x |", "C01: expected seven cells"), ("nothing", "has no C01, C02")],
)
def test_another_table_is_no_table_of_verdicts(text: str, message: str, tmp_path: Path):
    (path := tmp_path / "verdicts.md").write_text(text)
    with pytest.raises(BadVerdicts, match=message):
        verdicts(path)


def test_what_was_not_recorded_is_a_dash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(artifact, "ARCHIVE", tmp_path)
    artifact.varies.cache_clear()
    assert artifact.took("launch") == artifact.varies("launch") == "–"
    artifact.varies.cache_clear()
