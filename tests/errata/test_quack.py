"""QuACK 0.6.5, a peer: what quack/softmax.py and quack/reduce.py compute, step by step."""

import math

import pytest
import torch
from torch import Tensor

from experiments.check import check, planted
from tests.reference import DEVICE

LOG2E = math.log2(math.e)
THREADS = 256  # of a block, which holds a part of one row, from 16,385 columns on
# Up to so many columns a row takes so many blocks, by bytes an element; beyond, 16.
BLOCKS = {
    2: ((16_384, 1), (32_768, 2), (65_536, 4), (131_072, 8)),
    4: ((32_768, 1), (65_536, 2), (131_072, 4), (262_144, 8)),
}


def warps(cols: int, size: int) -> Tensor:
    """Each column's warp (its number in the cluster), and how many warps there are, last."""
    blocks = next((n for limit, n in BLOCKS[size] if cols <= limit), 16)
    vector = 16 // size
    trips = math.ceil(cols // vector / (THREADS * blocks))
    column = torch.arange(cols)
    block, inside = column // (trips * THREADS * vector), column % (THREADS * vector)
    warp = block * (THREADS // 32) + inside // (32 * vector)
    return torch.cat([warp, torch.tensor([blocks * (THREADS // 32)])])


def online(x: Tensor, guarded: bool) -> Tensor:
    """Softmax (rows, cols): each warp's maximum and sum, then all of a row's as one."""
    *_, count = (warp := warps(x.shape[1], x.element_size())).tolist()
    wide = x.float()
    parts = [wide[:, warp[:-1] == w] for w in range(count)]
    # What is past the row's end is loaded as -inf.
    parts = [p if p.shape[1] else wide.new_full((len(x), 1), -math.inf) for p in parts]
    maxima = torch.stack([p.amax(dim=1) for p in parts])
    exponents = [p * LOG2E - m[:, None] * LOG2E for p, m in zip(parts, maxima, strict=True)]
    sums = torch.stack([e.exp2().sum(dim=1) for e in exponents])
    if guarded:
        sums = sums.where(maxima > -math.inf, 0)
    peak = maxima.amax(dim=0)
    total = (sums * (maxima - peak).exp()).sum(dim=0)
    return ((wide - peak[:, None]).exp() / total[:, None]).to(x.dtype)


@pytest.mark.parametrize(
    ("cols", "dtype", "right"),
    [
        (151_936, torch.bfloat16, False),
        (201_088, torch.float16, False),
        (128_256, torch.bfloat16, True),
        (131_072, torch.float16, True),
        (262_144, torch.bfloat16, True),
        (151_936, torch.float32, True),
        (201_088, torch.float32, True),
    ],
)
def test_a_warp_past_the_rows_end_makes_the_row_nan(cols: int, dtype: torch.dtype, right: bool):
    x = planted(1, cols, dtype, DEVICE, seed=0)
    assert check(x, online(x, guarded=True)).ok
    y = online(x, guarded=False)
    assert check(x, y).ok == right
    assert y.isnan().all() != right


def test_scaling_before_the_difference_loses_what_a_shift_takes():
    x = planted(4, 4096, torch.float32, DEVICE, seed=0) + 1e4
    peak = x.amax(dim=1, keepdim=True)
    scaled = (x * LOG2E - peak * LOG2E).exp2()
    assert not check(x, scaled / scaled.sum(dim=1, keepdim=True)).ok
    after = ((x - peak) * LOG2E).exp2()
    assert check(x, after / after.sum(dim=1, keepdim=True)).ok
