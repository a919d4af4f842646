"""What tuning measures: shapes that can serve a width, the shipped table's among them."""

import json

import pytest

from experiments.tune import CHUNKS, DEEP_CHUNKS, MEASURED, SMALL_CHUNKS, candidates, fastest_first
from kernels.frontier.plans import EDGES, VECTOR_BYTES, Shape
from kernels.frontier.select import DEFAULT, MANY, TABLES, Request, possible

TABLE = json.loads((TABLES / f"{DEFAULT}.json").read_text())["entries"]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("edges", [False, True])
def test_every_width_has_candidates_that_hold_it(size: int, edges: bool):
    for rows, base in MEASURED:
        cols = base + edges
        request = Request(
            "float32" if size == 4 else "float16", rows, cols, edges, contiguous=True,
            lines=False, arch=90, multiprocessors=132,
        )  # fmt: skip
        shapes = [s for s in candidates(request) if possible(s, request)]
        assert shapes, (rows, cols)
        assert len(set(shapes)) == len(shapes)
        for shape in shapes:
            plan = shape.plan(cols, size, edges)
            held = plan.cols_held(size)
            whole = cols - cols % (VECTOR_BYTES // size)
            if shape.regime not in ("staged", "chunks"):
                assert held >= (cols if shape.regime == "tile" else whole)
            # Nobody's registers hold more than 255 words beside the rest.
            assert plan.held * (4 if shape.raw else VECTOR_BYTES // size) < 255


def test_the_shipped_table_chose_among_them():
    assert len(TABLE) > 200
    for entry in TABLE:
        request = Request(
            entry["dtype"], entry["rows"] or MANY, entry["cols"], EDGES.index(entry["edges"]),
            contiguous=True, lines=False, arch=90, multiprocessors=132,
        )  # fmt: skip
        shape = Shape(entry["regime"], tuple(entry["sizes"]), entry["raw"])
        assert shape in set(candidates(request)), entry
    assert {tuple(e["sizes"][:-1]) for e in TABLE if e["regime"] == "chunks"} <= {
        *CHUNKS,
        *SMALL_CHUNKS,
        *DEEP_CHUNKS,
    }


def test_the_fastest_shape_comes_first():
    slow, fast = Shape("block", (128, 1)), Shape("cluster", (128, 4, 1), raw=True)
    told = fastest_first({"cols": 9}, {slow: 0.5, fast: 0.98765})
    assert [e["regime"] for e in told] == ["cluster", "block"]
    assert told[0] == {
        "cols": 9, "regime": "cluster", "sizes": [128, 4, 1], "raw": True,
        "fraction_of_copy": 0.9877,
    }  # fmt: skip
