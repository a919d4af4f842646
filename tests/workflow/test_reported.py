"""What the report shows: every figure and page has its caption, and Markdown becomes a page."""

from pathlib import Path

import pytest
import yaml

from figures import (
    FAMILY_FIGURES,
    FIGURES,
    OPERATOR_FIGURES,
    TABLE_FIGURES,
    TRANSFORMER_FIGURES,
)
from tests.commands import ROOT, module
from workflow.reported import CAPTIONS, PAGES, caption, category, labels
from workflow.tables import PROFILE_FIGURES
from workflow.webpage import page

# Smoke's times measure nothing, and its figure is in no report.
SHOWN = [
    *(figure for figure in FIGURES if figure != "smoke"),
    *(*TABLE_FIGURES, *PROFILE_FIGURES, *OPERATOR_FIGURES, *TRANSFORMER_FIGURES, *FAMILY_FIGURES),
    *("resources", "regimes"),
]


@pytest.mark.parametrize("name", [*SHOWN, *PAGES, "workflow"])
def test_it_has_a_caption(name: str):
    text = Path(caption(name)).read_text()
    assert len(text.split()) > 8
    assert text.rstrip().endswith(".")


def test_no_caption_is_left_over():
    assert {path.stem for path in CAPTIONS.iterdir()} == {*SHOWN, *PAGES, "workflow"}


def test_headings_and_labels():
    assert category("vocab_scaling") == "Sweeps"
    assert category("occupancy") == "Counted by Nsight Compute"
    assert category("layouts") == "Accuracy, first calls, layouts"
    assert category("decoding") == "End to end"
    assert category("backward") == "Operators beside the softmax"
    assert category("operator_accuracy") == "Operators beside the softmax"
    assert category("regimes") == "Compiled code"
    # Figures under one heading are told apart by the same words.
    for heading in {category(figure) for figure in SHOWN}:
        kinds = {tuple(labels(f)) for f in SHOWN if category(f) == heading}
        assert len(kinds) == 1


def test_the_catalog_finds_what_it_looks_for():
    told = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())
    assert told["usage"]["report"]
    assert told["usage"]["software-stack-deployment"] == {"conda": True}
    assert all((ROOT / name).is_file() for name in ("workflow/Snakefile", "config/README.md"))


def test_a_table_becomes_a_page():
    text = page("2 claims.\n\n| id | claim |\n| --- | --- |\n| C1 | a **b** <script> |\n", "claims")
    assert "<title>claims</title>" in text
    assert "<td>a <strong>b</strong> &lt;script&gt;</td>" in text


def test_a_missing_table_is_named(tmp_path: Path):
    done = module("workflow.webpage", tmp_path / "claims.md", tmp_path / "claims.html")
    assert done.returncode == 2
    assert "claims.md is missing: snakemake --cores 1 makes it" in done.stdout
