"""The figure of errors: worst cells, sums, what did fewer shapes, labels apart."""

from itertools import pairwise

import matplotlib.style
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from figures import accuracy, page
from kernels.registry import BY_NAME


def test_accuracy_has_the_worst_of_all_shapes_and_of_all_sums():
    cells = [("normal", 8, 1.5, 2.0**-24), ("normal", 9, 2.5, 3 * 2.0**-24), ("one-hot", 8, 0.5, 0)]
    rows = [
        {"variant": "triton_row", "dtype": "float32", "input": kind, "cols": cols, "status": "ok",
         "max_ulps": ulps, "row_sum_err": error}
        for kind, cols, ulps, error in cells
    ]  # fmt: skip
    wrong = {**rows[0], "variant": "torch_naive", "status": "wrong"}
    ((panel,),) = accuracy.panels(pd.DataFrame([*rows, wrong]))
    ax = Figure().subplots()
    panel.draw(ax, panel.table)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["normal", "one-hot", "row sums"]
    assert [text.get_text() for text in ax.texts] == ["2.5", "0.5", "3"]


def test_accuracy_names_what_did_fewer_shapes():
    rows = [
        {"variant": name, "dtype": "float32", "rows": 2, "cols": cols, "status": status}
        for name, cols, status in (
            ("torch_eager", 8, "ok"), ("torch_eager", 9, "ok"), ("quack", 8, "ok"),
            ("quack", 9, "skipped"), ("liger", 8, "ok"), ("liger", 9, "wrong"),
        )
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    assert accuracy.fewer(table) == ["in some of the shapes alone: QuACK"]
    assert accuracy.fewer(table[table["variant"] != "quack"]) == []


def test_labels_of_errors_are_apart_in_the_paper():
    rows = [
        {"variant": v.name, "dtype": "float32", "input": "normal", "rows": 2, "cols": 8,
         "status": "ok", "max_ulps": 1.0, "row_sum_err": 0.0}
        for v in BY_NAME.values() if not v.ceiling
    ]  # fmt: skip
    grid = accuracy.panels(pd.DataFrame(rows))
    with matplotlib.style.context(page.HERE / "paper.mplstyle", after_reset=True):
        figure = page.compose(grid, "a note", page.MEDIA[1], "all", accuracy.TALL)
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert len(boxes) > 40
    assert all(above.y0 >= below.y1 for above, below in pairwise(boxes))


@pytest.mark.parametrize(
    ("ulps", "text"),
    [(0.5, "0.5"), (0.2123, "0.21"), (2.5e-5, "0"), (8.34, "8.3"), (97.2, "97"), (121.4, "121"),
     (12_345.0, "12345"), (np.nan, "")],
)  # fmt: skip
def test_a_cell_has_room_for_its_error(ulps: float, text: str):
    assert accuracy.short(ulps) == text
