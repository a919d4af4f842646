"""The figure of operators' errors: a dot a kind of input, hollow where ours is of earlier code."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from experiments.grids import ACCURACY_INPUTS
from figures import operator_accuracy, page
from figures.look import look
from tests.commands import module
from tests.experiments.family.made import errors_of

HARDWARE = {
    "source": "local-test-gpu",
    "gpu": "Test GPU",
    "measured_utc": "2026-01-01",
    "mode": "full",
}


def written(folder: Path, table: pd.DataFrame) -> Path:
    table.to_csv(folder / "accuracy.csv", index=False)
    (folder / "hardware.json").write_text(json.dumps(HARDWARE))
    return folder / "accuracy.csv"


def dots(table: pd.DataFrame) -> dict[tuple[str, float], tuple[float, bool]]:
    """Of the first panel: units and whether a dot is hollow, by colour and place."""
    ((panel, *_),) = operator_accuracy.panels(table)
    ax = Figure().subplots()
    panel.draw(ax, panel.table)
    some = [line for line in ax.lines if line.get_marker() not in ("None", "", None)]
    return {
        (str(line.get_color()), round(float(line.get_ydata()[0]), 3)): (  # pyright: ignore
            float(line.get_xdata()[0]), line.get_markerfacecolor() == "white",  # pyright: ignore
        )
        for line in some
    }  # fmt: skip


def test_the_worst_of_all_shapes_is_a_dot_in_its_band(tmp_path: Path):
    table = errors_of("columns", "factors")
    ours, torchs = look("ours").colour, look("torch").colour
    one = (
        (table["operator"] == "factors") & (table["asked"] == "log") & (table["input"] == "normal")
    )
    one &= (table["dtype"] == "float32") & (table["implementation"] == "ours")
    table.loc[table.index[one][0], "max_ulps"] = 77.0
    found = dots(operator_accuracy.read(written(tmp_path, table)))
    # Two bands of factors and three of columns, as the family has them, of every kind.
    assert len(found) == 5 * len(ACCURACY_INPUTS) * 2
    assert found[ours, -0.4] == (77.0, False)
    assert found[torchs, -0.4] == (2.0, False)
    assert found[ours, 4.4][0] == 1.0


def test_the_axis_reaches_to_the_largest_error_that_is_finite(tmp_path: Path):
    table = errors_of("columns", "factors")
    for dtype, error in (("float16", 1.7e7), ("bfloat16", math.inf)):
        of_factors = (table["dtype"] == dtype) & (table["operator"] == "factors")
        table.loc[of_factors, "max_ulps"] = error
    grid = operator_accuracy.panels(operator_accuracy.read(written(tmp_path, table)))
    figure = page.compose(grid, "a note", page.MEDIA[0], "all")
    for panel, ax in zip(grid[0], figure.axes, strict=True):
        assert 1e8 < ax.get_xlim()[1] < 1e9  # one axis for all dtypes
        places = [np.asarray(line.get_xdata()) for line in ax.lines]
        worst = max(x[0] for x in places if len(x) == 1)
        assert worst == {"float32": 2.0, "float16": 1.7e7, "bfloat16": 1e8}[panel.title]


def test_ours_is_hollow_where_its_code_has_changed(tmp_path: Path):
    table = errors_of("columns", "factors")
    table.loc[table["operator"] == "columns", "kernel_sha256"] = "c" * 64
    found = dots(operator_accuracy.read(written(tmp_path, table)))
    hollow = {(colour, y) for (colour, y), (_, empty) in found.items() if empty}
    assert {colour for colour, _ in hollow} == {look("ours").colour}
    assert len(hollow) == 3 * len(ACCURACY_INPUTS)
    assert all(y > 1.5 for _, y in hollow)


def test_what_has_no_error_is_told(tmp_path: Path):
    table = errors_of("columns")
    table.loc[0, ["status", "reason"]] = ["wrong", "NaN or infinity in the output"]
    table.loc[0, ["max_ulps", "mean_ulps"]] = float("nan")
    data = operator_accuracy.read(written(tmp_path, table))
    (told,) = operator_accuracy.stopped(data)
    assert told.startswith("1 wrong, such as ours in columns, square, float32, normal: NaN")
    assert operator_accuracy.stopped(data[data["status"] == "ok"]) == []


def test_the_command_draws_and_names_what_is_no_table(tmp_path: Path):
    path = written(tmp_path, errors_of("columns", "attention"))
    arguments = ["--hardware", tmp_path / "hardware.json", "--stem", tmp_path / "it"]
    assert module("figures.operator_accuracy", path, *arguments).returncode == 0
    first = {s: (tmp_path / f"it.{s}").read_bytes() for s in ("svg", "png", "pdf")}
    assert module("figures.operator_accuracy", path, *arguments).returncode == 0
    assert first == {s: (tmp_path / f"it.{s}").read_bytes() for s in first}
    path.write_text("a,b\n1,2\n")
    odd = module("figures.operator_accuracy", path, *arguments)
    assert (odd.returncode, "Traceback" in odd.stdout) == (2, False)
    assert "is not a table of operators' errors" in odd.stdout
    with pytest.raises(page.BadInput):
        operator_accuracy.read(path)
