"""What kernels are told of an operator, and which of them take a mask."""

import json
import math
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels.frontier import select as select_module
from kernels.frontier.operators import MASKS, Operator, matrix
from kernels.frontier.plans import UNMASKED_REGIMES, Shape
from kernels.frontier.select import DEFAULT, TABLES, Request, possible, select, table
from kernels.registry import DTYPES


@pytest.mark.parametrize("times", [0.0, -1.0, math.inf, math.nan])
def test_a_factor_that_is_not_finite_and_above_0_is_refused(times: float):
    with pytest.raises(ValueError, match="expected a finite factor above 0 of the elements; got"):
        Operator(times=times)


sizes = st.lists(st.integers(1, 4), min_size=0, max_size=5)


@given(sizes, st.lists(st.booleans(), min_size=6, max_size=6), st.permutations(range(5)))
def test_a_mask_is_told_of_by_where_its_rows_lie(
    lead: list[int], kept: list[bool], order: list[int]
):
    """Its rows are found, or it is refused, whichever dimensions it is broadcast over."""
    shape = [*lead, 3]
    own = [n if keep else 1 for n, keep in zip(shape, kept, strict=False)]
    numbers = torch.arange(math.prod(own)).reshape(own)
    order = [d for d in order if d < len(lead)]
    back = [order.index(d) for d in range(len(lead))]
    lying = numbers.permute(*order, len(lead)).contiguous().permute(*back, len(lead))
    mask = lying.expand(shape)
    told = matrix(mask.shape, mask.stride(), boolean=False)
    memory = torch.as_strided(lying, (math.prod(own),), (1,), 0)
    if told is None:
        assert len(lead) > 2
        return
    rows = math.prod(lead)
    for row, values in enumerate(mask.reshape(rows, 3)):
        above, n2 = divmod(row, told.n2)
        n0, n1 = divmod(above, told.n1)
        start = sum(n * s for n, s in zip((n0, n1, n2), told.strides, strict=True))
        assert [int(memory[start + told.step * i]) for i in range(3)] == values.tolist()


def test_a_mask_in_more_than_three_uneven_dimensions_is_refused():
    # Every second dimension is broadcast: no two of them become one.
    mask = torch.zeros(2, 1, 2, 1, 3).expand(2, 2, 2, 2, 3)
    assert matrix(mask.shape, mask.stride(), boolean=True) is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_masked_rows_never_go_where_columns_are_not_known(dtype: str):
    taken = set()
    widths = sorted({e.cols for some in table(DEFAULT).values() for e in some})
    for cols, rows, edges in product(widths, (1, 64, 10**6), (0, 1, 2)):
        asked = Request(
            dtype, rows, cols, edges, contiguous=True, lines=not edges, arch=90,
            multiprocessors=132,
        )  # fmt: skip
        taken.add(select(asked, DEFAULT).regime)
        for kind in MASKS:
            shape = select(replace(asked, operator=kind), DEFAULT)
            assert shape.regime not in UNMASKED_REGIMES
            assert possible(shape, replace(asked, operator=kind))
    assert taken >= set(UNMASKED_REGIMES)


def test_an_operator_that_was_measured_goes_by_its_own_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked = Request("float32", 10**6, 4096, 0, True, True, 90, 132)
    plain, own = select(asked, DEFAULT), Shape("block", (1024, 1))
    assert plain != own
    shutil.copy(TABLES / f"{DEFAULT}.json", tmp_path)
    entry = {
        "dtype": "float32", "edges": "none", "rows": None, "cols": 4096, "regime": own.regime,
        "sizes": own.sizes, "raw": False, "fraction_of_copy": 1.0,
    }  # fmt: skip
    (tmp_path / "chosen").mkdir()
    (tmp_path / "chosen" / f"{DEFAULT}.json").write_text(json.dumps({"entries": [entry]}))
    monkeypatch.setattr(select_module, "TABLES", tmp_path)
    table.cache_clear()
    try:
        assert select(replace(asked, operator="chosen"), DEFAULT) == own
        assert select(replace(asked, operator="factors"), DEFAULT) == plain
        assert select(asked, DEFAULT) == plain
        few = replace(asked, rows=1)  # of which the plain softmax's entries still stand
        assert select(replace(few, operator="chosen"), DEFAULT) != own
    finally:
        table.cache_clear()
