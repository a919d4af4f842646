"""Figures of operators: every point on its panel, what has no time marked, three files."""

import re
from importlib import import_module
from pathlib import Path

import matplotlib.style
import numpy as np
import pandas as pd
import pytest
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from experiments.family import OPERATORS
from experiments.family.others import COPIES
from figures import OPERATOR_FIGURES, family, page
from figures.look import look
from tests.commands import module
from tests.experiments.family.made import SKIPPED, tidy_of

CURVES = [name for name in OPERATORS if name != "columns"]
Y = {"operators": "fraction_of_ceiling", "attention": "tflops", "operator_latency": "median_us"}


def as_read(table: pd.DataFrame) -> pd.DataFrame:
    table = table.rename(columns={"implementation": "variant"})
    return table[~table["variant"].isin(COPIES)]


def figure_of(name: str, table: pd.DataFrame) -> tuple[Figure, page.Grid]:
    grid = import_module(f"figures.{OPERATOR_FIGURES[name]}").panels(table)
    with matplotlib.style.context(page.HERE / "paper.mplstyle"):
        return page.compose(grid, "a note", page.MEDIA[1], "all"), grid


@pytest.mark.parametrize("name", CURVES)
def test_every_case_is_on_a_panel_and_every_time_on_a_curve(name: str):
    script = OPERATOR_FIGURES[name]
    x, y = "rows" if script == "operator_latency" else "cols", Y[script]
    table = as_read(tidy_of(name))
    figure, grid = figure_of(name, table)
    panels = [panel for row in grid for panel in row]
    assert len(panels) == len(figure.axes)
    shown = table
    if script == "operator_latency":
        shown = table[table["cols"] == (128 if name == "calls" else 128_256)]
    assert sum(len(panel.table) for panel in panels) == len(shown)
    for panel, ax in zip(panels, figure.axes, strict=True):
        mine = panel.table[panel.table["variant"] == "ours"].sort_values(["rows", "cols"])
        mine = mine.drop_duplicates(x).sort_values(x)
        (line,) = (each for each in ax.lines if each.get_label() == "_ours")
        assert np.asarray(line.get_xdata()).tolist() == mine[x].tolist()
        assert np.asarray(line.get_ydata()) == pytest.approx(mine[y].to_numpy())


def test_what_is_skipped_or_wrong_has_its_mark():
    table = as_read(tidy_of("backward"))
    case = OPERATORS["backward"].cases[3]
    at = (table["cols"] == case.cols) & (table["dtype"] == case.dtype)
    at &= (table["asked"] == case.asked) & (table["variant"] == "ours")
    table.loc[at, "status"] = "wrong"
    table.loc[at, ["median_us", "fraction_of_ceiling"]] = np.nan
    figure, grid = figure_of("backward", table)
    for panel, ax in zip((p for row in grid for p in row), figure.axes, strict=True):
        wrong = [line for line in ax.lines if line.get_label() == "_ours wrong"]
        mine = panel.table[panel.table["status"] == "wrong"]
        assert [np.asarray(x.get_xdata()).tolist() for x in wrong] == [[c] for c in mine["cols"]]
        skipped = [line for line in ax.lines if line.get_label() == f"_{SKIPPED} skipped"]
        assert len(skipped) == 1


def test_the_bars_of_columns_are_the_fractions_of_copy_in_groups_by_shape():
    table = as_read(tidy_of("columns"))
    stopped = (table["variant"] == "torch_compile") & (table["dtype"] == "float32")
    table.loc[stopped, "status"] = "skipped"
    names = ["fraction_of_ceiling", "fraction_of_ceiling_low", "fraction_of_ceiling_high"]
    table.loc[stopped, names] = np.nan
    figure, grid = figure_of("columns", table)
    shapes = len(OPERATORS["columns"].cases) // 2
    for panel, ax in zip((p for row in grid for p in row), figure.axes, strict=True):
        bars = {c.get_label(): c for c in ax.containers if isinstance(c, BarContainer)}
        assert "copy (ceiling)" not in bars
        mine = panel.table[panel.table["variant"] == "ours"]
        heights = sorted(bar.get_height() for bar in bars[look("ours").label])
        assert heights == pytest.approx(sorted(mine["fraction_of_ceiling"]))
        marks = [x for x in ax.lines if x.get_label() == "_torch_compile skipped"]
        counts = [np.asarray(mark.get_xdata()).size for mark in marks]
        assert counts == ([shapes] if panel.title == "float32" else [])
        assert len(ax.get_xticks()) == shapes


@pytest.mark.parametrize(("timer", "told"), [("call", "a caller waits"), ("graph", "the device")])
def test_microseconds_are_said_to_be_a_callers_or_the_devices(timer: str, told: str):
    figure, _ = figure_of("calls", as_read(tidy_of("calls").assign(timer=timer)))
    assert figure.axes[0].get_ylabel().endswith(told)


def test_a_copy_is_no_ceiling_of_waits_or_of_few_results():
    for name, label in (("calls", "copy, called alike"), ("sample", "copy of whole rows")):
        assert label in legend_of(name)
        assert look("copy").label not in legend_of(name)
    assert look("copy").label in legend_of("factors")


def test_a_copy_that_is_called_has_no_band():
    _, grid = figure_of("calls", as_read(tidy_of("calls")))
    for panel in (panel for row in grid for panel in row):
        wide = panel.table["ci_high_us"] > panel.table["ci_low_us"]
        assert set(panel.table[~wide]["variant"]) == {"copy"}


def legend_of(name: str) -> set[str]:
    figure, _ = figure_of(name, as_read(tidy_of(name)))
    return {text.get_text() for text in figure.legends[0].get_texts()}


@pytest.mark.parametrize(("blocks", "told"), [(3, "range"), (5, "95% interval")])
def test_the_legend_says_what_bands_are(blocks: int, told: str):
    figure, _ = figure_of("attention", as_read(tidy_of("attention").assign(n_blocks=blocks)))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[-1] == f"band: {told} of blocks"


def test_the_stamp_tells_of_which_width_the_latencies_are():
    words = import_module("figures.operator_latency").words
    assert words(as_read(tidy_of("calls")))[0].startswith("softmaxes of 128 elements; ")
    assert words(as_read(tidy_of("sample")))[0].startswith("rows of 128,256 columns; ")


def test_what_is_asked_stands_in_the_order_of_the_cases():
    assert family.in_order(as_read(tidy_of("topk_softmax"))) == ["k=1", "k=8", "k=50", "k=128"]
    assert family.in_order(as_read(tidy_of("sample", "smoke")))[0] == "temperature"


@pytest.mark.parametrize("name", OPERATORS)
def test_the_command_writes_three_files(name: str, hardware: Path, tmp_path: Path):
    tidy_of(name, "smoke").to_csv(tmp_path / "tidy.csv", index=False)
    done = drawn(name, tmp_path / "tidy.csv", hardware, tmp_path / "made" / name)
    assert done.returncode == 0, done.stdout
    suffixes = {path.suffix for path in (tmp_path / "made").iterdir()}
    assert suffixes == {".svg", ".png", ".pdf"}


def test_earlier_code_and_what_is_not_installed_are_told(hardware: Path, tmp_path: Path):
    tidy_of("backward", kernel_sha256="c" * 64).to_csv(tmp_path / "tidy.csv", index=False)
    done = drawn("backward", tmp_path / "tidy.csv", hardware, tmp_path / "backward")
    assert done.returncode == 0, done.stdout
    texts = re.findall("<!-- (.*?) -->", (tmp_path / "backward.svg").read_text(), re.DOTALL)
    text = " ".join(" ".join(texts).split())
    assert "hollow markers are stale" in text
    assert "skipped throughout: QuACK" in text
    assert "torch.add (ceiling)" in text


@pytest.mark.parametrize("script", sorted(set(OPERATOR_FIGURES.values())))
def test_a_table_of_something_else_is_one_sentence(script: str, hardware: Path, tmp_path: Path):
    (tmp_path / "tidy.csv").write_text("a,b\n1,2\n")
    done = module(
        f"figures.{script}", tmp_path / "tidy.csv", "--hardware", hardware, "--stem", tmp_path / "f"
    )
    assert done.returncode == 2
    assert "is not a tidy table of an operator: missing or unknown columns" in done.stdout
    assert "python -m experiments.family.tidy" in done.stdout
    assert "Traceback" not in done.stdout


def test_every_operator_has_a_figure():
    assert list(OPERATOR_FIGURES) == list(OPERATORS)


def drawn(name: str, table: Path, hardware: Path, stem: Path):
    script = OPERATOR_FIGURES[name]
    return module(f"figures.{script}", table, "--hardware", hardware, "--stem", stem)
