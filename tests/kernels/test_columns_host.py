"""The kernels that go down columns, on this machine: right against float64, in any memory."""

import ctypes
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from kernels.frontier import columns
from kernels.frontier.columns_layout import Columns, unit_bytes
from kernels.frontier.columns_plans import TOGETHER, Choice, ColumnsPlan, choose
from kernels.frontier.plans import VECTOR_BYTES, Shape
from tests.kernels.columns_host import Code, chosen, placed
from tests.kernels.frontier_host import KINDS, in_cpp
from tests.kernels.host import library

# Half a unit in the last place, and 5e-4 for all that comes before.
NEAR = {"float32": 1e-5, "bfloat16": 4.4e-3}
# Outer parts, rows, places. Of each architecture all that its rule tells apart.
SHAPES = {
    90: ((3, 4, 45), (70, 3, 3), (700, 30, 2), (2, 40, 24), (1, 300, 70), (1, 3000, 5)),
    80: ((1, 1, 33), (2, 50, 17), (1, 9000, 6)),
}
# Gaps after rows and slabs and elements past a line, of x and of the results.
LAYOUTS = (
    ((0, 0, 0), (0, 0, 0)), ((0, 0, 1), (0, 0, 1)), ((8, 16, 0), (0, 0, 0)), ((3, 5, 2), (0, 2, 4)),
)  # fmt: skip


def small(
    threads: int, blocks: int, lies: Columns, size: int, unit: int, log: bool, *_: int | str,
    eighths: int = 0, polynomial: int = 0,
) -> Choice:  # fmt: skip
    """Rows in the registers of small blocks of a cluster, or with no blocks read twice in three.

    Of vectors, and not of narrower units, ``eighths`` may lie in shared memory, and at 16 bits
    ``polynomial`` eighths of the exponentials be a polynomial's.
    """
    units, lanes = lies.inner * size // unit, 4
    strips = -(-lies.outer * units // lanes)
    share = -(-lies.cols // (blocks or 3))
    if blocks:
        each = -(-share // (threads // lanes))
        staged = each * eighths // 8 if unit == VECTOR_BYTES else 0
        shape = Shape("held", (unit, lanes, threads, blocks, 1, eighths, polynomial))
        share_of = polynomial if unit == VECTOR_BYTES and size == 2 and not log else 0
        plan = ColumnsPlan(shape, each - staged, 0, log=log, staged=staged, polynomial=share_of)
        return Choice((plan,), units, units, strips, blocks, share)
    sizes = (unit, lanes, threads, 1)
    first = ColumnsPlan(Shape("partials", sizes), 0, 0)
    second = ColumnsPlan(Shape("results", sizes), 0, 0, log=log)
    return Choice((first, second), units, units, strips, -(-lies.cols // share), share)


def banded(
    band: int, ahead: int, backwards: int, lies: Columns, size: int, unit: int, log: bool,
    *_: int | str, trips: int = 1,
) -> Choice:  # fmt: skip
    """In bands of so many strips, so many pieces ahead of the first band's end."""
    units, lanes, threads = lies.inner * size // unit, 4, 64
    strips = -(-lies.outer * units // lanes)
    share = threads // lanes * (TOGETHER // max(1, unit // 4)) * trips
    splits = -(-lies.cols // share)
    pieces = -(-strips // band) * band * splits
    plan = ColumnsPlan(Shape("bands", (unit, lanes, threads, 1)), 0, 0, log=log)
    first = min(pieces, band * splits + ahead)
    return Choice((plan,), units, units, strips, splits, share, band, first, backwards)


WAYS = {
    "rule, Hopper": (choose, 90, SHAPES[90]),
    "rule, Ampere": (choose, 80, SHAPES[80]),
    "block": (partial(small, 64, 1), 90, ((3, 41, 9), (2, 100, 32))),
    "cluster": (partial(small, 32, 4), 90, ((3, 41, 9), (2, 100, 32), (1, 3, 16))),
    "staged": (partial(small, 32, 1, eighths=5), 90, ((3, 41, 16), (2, 100, 32), (1, 2, 16))),
    "cluster, staged": (partial(small, 32, 4, eighths=4), 90, ((3, 41, 16), (2, 200, 32))),
    "polynomial": (partial(small, 64, 1, polynomial=3), 90, ((3, 41, 16), (2, 100, 32))),
    "alone, polynomial": (partial(small, 32, 1, polynomial=8), 90, ((3, 41, 16),)),
    "cluster, polynomial": (
        partial(small, 32, 4, eighths=4, polynomial=2),
        90,
        ((3, 41, 16), (2, 200, 32)),
    ),
    # More pieces of a strip than are merged at once, and bands that are not full.
    "bands": (partial(banded, 2, 3, 0), 90, ((3, 41, 9), (1, 4200, 8), (3, 200, 24))),
    "a band, backwards": (partial(banded, 100, 0, 1), 80, ((3, 41, 16), (2, 500, 32), (1, 1, 16))),
    "bands, two trips": (
        partial(banded, 2, 3, 0, trips=2),
        90,
        ((3, 41, 16), (1, 4200, 16), (3, 200, 48)),
    ),
    "twice": (partial(small, 64, 0), 80, ((3, 41, 9), (2, 500, 32), (1, 1, 16))),
}


def layouts(
    shape: tuple[int, int, int], dtype: torch.dtype
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """x, the place of the results and the memory around that, full of 7; NaN around x."""
    for of_x, of_out in LAYOUTS:
        x, _ = placed(shape, *of_x, torch.nan, dtype)
        out, memory = placed(shape, *of_out, 7.0, dtype)
        x.copy_(4 * torch.randn(shape))
        # Of places: one that is masked throughout, one of NaN, one of inf, one masked in part.
        flat = x.flatten(2)
        flat[0, :, 0] = -math.inf
        flat[-1, -1, -1] = math.nan
        if shape[2] > 3:
            flat[0, 0, 1] = math.inf
            flat[0, : shape[1] - 1, 2] = -math.inf
            flat[-1, :, 3] = -200.0 + torch.randn(shape[1])  # no part of it reaches 0
            flat[-1, : shape[1] // 2, 3] = -math.inf
        if shape[2] > 8:  # of all: far from 0, and further than exponents reach, and in part
            flat[0, :, 4] += 1e4
            flat[0, :, 5] -= 3e4
            flat[-1, :, 6] *= 1e30
            flat[0, shape[1] // 2 :, 7] += 1e4
            flat[-1, : shape[1] // 2, 8] -= 2000.0
        yield x, out, memory


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_columns_are_right_in_any_memory_and_nothing_else_is_written(
    way: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    chooser, arch, shapes = WAYS[way]
    cases = [
        (*case, log)
        for shape in shapes
        for i, case in enumerate(layouts(shape, getattr(torch, kind)))
        for log in (False, True)
        if not log or i == 1  # what lies otherwise is loaded alike
    ]
    choices = [chosen(x, 1, out, log, arch, chooser) for x, out, _, log in cases]
    code = Code(kind, choices, tmp_path)
    code.take_over(monkeypatch, chooser, arch)
    for x, out, memory, log in cases:
        out.fill_(torch.nan)
        assert columns.softmax(x, 1, out, log) is out
        exact = (torch.log_softmax if log else torch.softmax)(x.double(), 1)
        torch.testing.assert_close(
            out.double(), exact, rtol=NEAR[kind], atol=2e-5 if log else 1e-30, equal_nan=True,
            msg=lambda said, x=x: f"{tuple(x.shape)}, {x.stride()}: {said}",
        )  # fmt: skip
        out.fill_(7.0)
        assert bool((memory == 7.0).all()), x.stride()
    assert code.faults() == 0


POWERS = """extern "C" void powers(int many, float offset, const float *x, float *power) {
    Powers<4, 8> of([=](int) { return offset; });
    for (int i = 0; i < many; ++i) {
        float v[8] = {x[i], 0, 0, 0, x[i]};
        of(v);
        power[2 * i] = v[0], power[2 * i + 1] = v[4];
    }
}
"""


def test_a_polynomial_is_an_exponential(tmp_path: Path):
    code = library(in_cpp("columns_held", tmp_path), POWERS, tmp_path)

    def powers(x: Tensor, base: float) -> Tensor:
        made = torch.empty(len(x), 2)
        places = (ctypes.c_void_p(t.data_ptr()) for t in (x, made))
        code.powers(len(x), ctypes.c_float(-base / math.log(2)), *places)
        return made.double()

    for base in (0.0, 3.7, -700.0, 1000.0):
        x = torch.cat([torch.linspace(-87.3, 0.6, 400_001), torch.zeros(1)]) + base
        exact = torch.exp(x.double() - base)
        polynomial, hardware = powers(x, base).T
        off = 1.1e-4 + 2**-14 * (abs(base) > 100)
        torch.testing.assert_close(polynomial, exact, rtol=off, atol=0.0)
        torch.testing.assert_close(hardware, exact, rtol=off - 1e-4, atol=0.0)
    assert powers(torch.zeros(1), 0.0).tolist() == [[1.0, 1.0]]
    # Nothing negative is left below what floats hold, and nothing at all of what is masked.
    tiny = powers(torch.linspace(-89.0, -87.0, 10_001), 0.0)[:, 0]
    exact = torch.exp(torch.linspace(-89.0, -87.0, 10_001).double())
    assert bool((tiny >= 0.0).all())
    assert bool(((tiny - exact).abs() <= 2.0**-126).all())
    nothing = powers(torch.tensor([-88.1, -200.0, -3e38, -math.inf]), 0.0)
    assert not nothing[:, 0].any()


@pytest.mark.parametrize("way", ["rule, Ampere", "bands", "bands, two trips", "twice"])
def test_results_may_take_the_inputs_place(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    chooser, arch, shapes = WAYS[way]
    x = torch.randn(shapes[1])
    expected = torch.softmax(x, 1)
    code = Code("float32", [chosen(x, 1, x, False, arch, chooser)], tmp_path)
    code.take_over(monkeypatch, chooser, arch)
    columns.softmax(x, 1, x)
    torch.testing.assert_close(x, expected)


def test_units_are_as_wide_as_all_places_allow():
    for size, places, unit in (
        (2, (64, 32), 16), (2, (64, 40), 8), (2, (64, 4), 4), (2, (1024, 34), 2), (4, (4, 16), 4),
        (4, (0, 0), 16),
    ):  # fmt: skip
        assert unit_bytes(size, *places) == unit
