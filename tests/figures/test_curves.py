"""Where a curve's line goes, and where it does not."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from figures.curves import curves
from tests.figures.test_draw import lines, xs


def test_a_line_is_broken_where_a_point_between_has_no_time():
    """And nowhere else: not at its ends, nor where another variant was stopped."""
    table = pd.DataFrame({"variant": ["triton_row"] * 5 + ["torch_eager"] * 5})
    table = table.assign(cols=[1, 2, 4, 8, 16] * 2, status="ok", stale=False, y=1.0)
    table.loc[[0, 2, 4], ["status", "y"]] = ["skipped", np.nan]
    ax = Figure().subplots()
    curves(ax, table.assign(low=table["y"], high=table["y"]), "cols", "y", "low", "high")
    (broken,), (whole,) = lines(ax, "_triton_row"), lines(ax, "_torch_eager")
    assert np.asarray(broken.get_xdata()).tolist() == [2, 4, 8]
    assert np.isnan(broken.get_ydata()).tolist() == [False, True, False]
    assert xs(whole) == [1, 2, 4, 8, 16]
