"""CITATION.cff against the schema of the Citation File Format 1.2.0.

cff-1.2.0.schema.json is the format's own, by the citation-file-format project (Druskat et al.),
under CC-BY-4.0, unchanged.
"""

import json
import tomllib
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((Path(__file__).parent / "cff-1.2.0.schema.json").read_text())
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def complaints(citation: dict) -> list[str]:
    validator = Draft7Validator(SCHEMA, format_checker=Draft7Validator.FORMAT_CHECKER)
    return [f"{e.json_path}: {e.message}" for e in validator.iter_errors(citation)]


def test_citation_is_valid():
    assert complaints(CITATION) == []


@pytest.mark.parametrize(
    "change", [{"authors": []}, {"license": "Apache 2"}, {"type": "paper"}, {"colour": "blue"}]
)
def test_schema_refuses(change: dict):
    assert complaints(CITATION | change)


def test_citation_says_what_pyproject_says():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (CITATION["version"], CITATION["license"]) == (project["version"], project["license"])
