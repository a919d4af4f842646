"""Claims on hand-made blocks, and what is said of them."""

from typing import Any

import pytest

from experiments.claim import Claim, Condition, Measure
from experiments.estimate import Beside, Recorded
from experiments.sweeps import Point
from experiments.tables import POINT
from experiments.tidy import tidy
from experiments.verdict import Verdict, assess
from tests.experiments.raw import Row, blocks, raw

COLS = (1024, 2048, 4096, 8192)
BLOCKS = 5
RATIO = {"kind": "ratio", "variant": "triton_row", "against": "triton_online", "over": "mean"}
FASTER = {"above": 1}


def twice(noise: float = 1.0, cols: tuple[int, ...] = COLS, **changes: Any) -> list[Row]:
    """The pair of one variant that sets the noise floor: the second takes ``noise`` as long."""
    rows: list[Row] = []
    for c in cols:
        rows += blocks("torch_eager", *[500.0] * BLOCKS, cols=c, **changes)
        rows += blocks("torch_eager/again", *[500 * noise] * BLOCKS, cols=c, **changes)
    return rows


def even(name: str, *times_ns: float, **changes: Any) -> list[Row]:
    """The same in every block: one time a column of COLS."""
    rows: list[Row] = []
    for c, ns in zip(COLS, times_ns, strict=False):
        rows += blocks(name, *[ns] * BLOCKS, **{"cols": c, **changes})
    return rows


def measure(**keys: Any) -> Measure:
    return Measure(**{"sweep": "vocab_scaling", "dtype": "float32", **keys})


def verdict(
    rows: list[Row],
    keys: dict[str, Any],
    condition: dict[str, Any],
    unmeasured: tuple[Point, ...] = (),
    **claim: Any,
) -> Verdict:
    """The verdict on a claim about ``keys``, from a sweep of which ``rows`` were measured."""
    asked = measure(**keys)
    stated = Claim(
        **{
            "id": "C01", "publication": "S1", "place": "here", "statement": "It is so.",
            "measure": asked, "condition": Condition.read(condition, asked.kind),
            "carries_over": True, **claim,
        }
    )  # fmt: skip
    table = raw(*rows)
    measured = {Point(*shape) for shape in table[POINT].itertuples(index=False)}
    recorded = Recorded.of(table, tidy(table), "torch_eager", (*measured, *unmeasured))
    return assess(stated, recorded, Beside(), "test-gpu")


def told(found: Verdict) -> tuple[Any, ...]:
    """The verdict, and its number with the interval."""
    assert found.estimate is not None
    e = found.estimate
    return found.verdict, *(pytest.approx(v) for v in (e.value, e.low, e.high))
