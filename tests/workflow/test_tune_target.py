"""`snakemake tune`: parts that are measured one by one, and a table when all are there."""

import json
from pathlib import Path

import pytest

from experiments import tried
from experiments.tune import in_order
from experiments.tune_places import NUMBERS
from tests.workflow.checkout import snakemake
from tests.workflow.recorded import GPU

RESULTS = f"results/local-{GPU}"
FACTS = {"gpu": "Test GPU", "measured_utc": "2026-11-27T20:00:00Z", "code_commit": "a" * 40}


def measured(copy: Path, numbers: str) -> list[dict[str, object]]:
    """As if a part had been measured, beside a table of an earlier commit."""
    entries = [
        {"dtype": "float32", "edges": "none", "rows": rows or None, "cols": cols,
         "regime": "block", "sizes": [128, 1], "raw": False, "fraction_of_copy": 0.9}
        for rows in NUMBERS[numbers] for cols in (4096, 1024)
    ]  # fmt: skip
    old = {**entries[0], "cols": 2048, "measured_utc": "", "code_commit": "b" * 40}
    part = copy / RESULTS / f"tune_{numbers}.json"
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_text(json.dumps({**FACTS, "entries": [old, *entries]}))
    tried.keep(tried.beside(part), entries, FACTS["code_commit"])
    part.with_suffix(".csv").touch()
    return entries


def jobs(copy: Path) -> dict[str, int]:
    told = snakemake(copy, "--dry-run", "tune")
    assert told.returncode == 0, told.stdout
    rules = "tune_rows", "tune_table", "tune_triton"
    return {rule: told.stdout.count(f"rule {rule}:") for rule in rules}


@pytest.mark.usefixtures("gpu", "tools")
def test_the_table_is_written_when_all_parts_are_there(copy: Path):
    assert jobs(copy) == {"tune_rows": len(NUMBERS), "tune_table": 1, "tune_triton": 1}
    first, *others = NUMBERS
    entries = measured(copy, first)
    assert jobs(copy) == {"tune_rows": len(others), "tune_table": 1, "tune_triton": 1}
    table = copy / f"kernels/frontier/tables/{GPU}.json"
    assert not table.exists()
    for numbers in others:
        entries += measured(copy, numbers)
    done = snakemake(copy, "tune_table")
    assert done.returncode == 0, done.stdout
    assert f"{len(entries)} numbers of rows and columns" in done.stdout
    made = json.loads(table.read_text())
    assert made == {**FACTS, "entries": sorted(entries, key=in_order)}
    assert len(tried.read(tried.beside(table))) == len(entries)
    assert jobs(copy) == {"tune_rows": 0, "tune_table": 0, "tune_triton": 1}
