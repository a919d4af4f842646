"""docs/frontier.md tells what the records and the code say."""

import re
from pathlib import Path

import pytest

from experiments.counts import read_beside
from experiments.launches import widest_dealt
from experiments.layout import BY_NAME, CONTIGUOUS, Place
from experiments.sanitizer import OPERATORS
from experiments.tables import SANITIZER
from kernels.frontier.plans import REGIMES
from kernels.frontier.select import DEFAULT
from kernels.registry import ROOT
from workflow.in_flight import H200, served

ROW = re.compile(r"\| (\w+) \| (\w+) \| (many|[\d,]+) x ([\d,]+) \| ([^|]+) \| (\d+) \| (\d+) \|")
TEXT = Path(ROOT.parent, "docs/frontier.md").read_text()
README = Path(ROOT.parent, "README.md").read_text()
ROWS = [found.groups() for line in TEXT.splitlines() if (found := ROW.match(line))]
# Places that no goal judges, of the CUDA kernels: where, what is reached, what was tried, KB, why.
UNJUDGED = "| 127 columns, float16 and bfloat16 |"
ARCHIVE = ROOT.parent / "experiments" / "archive" / DEFAULT


def number_of(text: str) -> int:
    """1048576 of 1,048,576; many are enough to fill the GPU."""
    return 10**6 if text == "many" else int(text.replace(",", ""))


def test_every_regime_is_told():
    assert {row[0] for row in ROWS} == set(REGIMES)


@pytest.mark.parametrize(("regime", "dtype", "rows", "columns", "label", "fit", "kilobytes"), ROWS)
def test_bytes_on_their_way_are_those_of_the_compiled_kernel(
    regime: str, dtype: str, rows: str, columns: str, label: str, fit: str, kilobytes: str
):
    here = served(Place(dtype, number_of(rows), number_of(columns)))
    assert here.plan.label == f"{regime} {label}"
    assert (here.at_once, here.kilobytes) == (int(fit), int(kilobytes))


def test_places_that_no_goal_judges_have_on_their_way_what_the_table_says():
    (row,) = (line for line in TEXT.splitlines() if line.startswith(UNJUDGED))
    told = row.split(" | ")[3]
    here = (served(Place(dtype, 2_113_665, 127)) for dtype in ("float16", "bfloat16"))
    assert told == ", ".join(str(each.kilobytes) for each in here)


def test_the_widths_at_which_operators_were_watched_are_told():
    watched = read_beside(ARCHIVE / "sanitizer.csv", SANITIZER)
    most = watched.groupby("regime")["most_cols"].max()
    for name in OPERATORS:
        assert f"`{name}` {most[name]:,}" in TEXT
    assert f"the operators' to {most[[*OPERATORS]].max():,}" in README


def test_the_widest_rows_that_are_dealt_out_are_told():
    for dtype, cell in (("float32", "float32 columns"), ("bfloat16", "of 16 bits")):
        whole, apart = (
            widest_dealt(dtype, BY_NAME[layout], H200)[0] / 1e6
            for layout in (CONTIGUOUS, "sliced input")
        )
        assert f"{whole:.2f} million {cell}" in TEXT
        assert f"{apart:.2f}" in TEXT
