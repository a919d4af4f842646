"""S4, the blog post on a CUDA ladder."""

import numpy as np
import torch
from numpy.typing import DTypeLike

from experiments.check import check, planted
from tests.reference import DEVICE
from tests.wrong import arithmetic, outputs


def test_float4_rows_are_misaligned_unless_their_stride_is_a_multiple_of_four():
    # S2's shape: rows of 781 floats.
    x = planted(8, 781, torch.float32, DEVICE, seed=0)
    misaligned = [row for row in range(8) if row * x.stride(0) * x.element_size() % 16]
    assert misaligned == [1, 2, 3, 5, 6, 7]
    assert not check(x, outputs.misaligned_vectors(x, torch.zeros_like(x), width=4)).ok
    assert check(x, outputs.misaligned_vectors(x, torch.zeros_like(x), width=1)).ok
    even = planted(8, 784, torch.float32, DEVICE, seed=0)
    assert check(even, outputs.misaligned_vectors(even, torch.zeros_like(even), width=4)).ok


def test_the_tree_loses_partial_sums_unless_the_threads_are_a_power_of_two():
    x = planted(8, 1000, torch.float32, DEVICE, seed=0)
    assert not check(x, arithmetic.odd_tree(x, torch.empty_like(x), threads=384)).ok
    assert check(x, arithmetic.odd_tree(x, torch.empty_like(x), threads=512)).ok


def test_one_float_is_too_small_a_sum_of_a_row():
    # Each small exponential is below half a step of a sum that starts at 1.
    x = torch.full((1, 4096), -17.5)
    x[0, 0] = 0
    numerator = x.exp().numpy()

    def normalised(dtype: DTypeLike) -> torch.Tensor:
        running = np.cumsum(numerator, axis=1, dtype=dtype)
        return torch.from_numpy((numerator / running[:, -1:]).astype(np.float32))

    assert not check(x, normalised(np.float32)).ok
    assert check(x, normalised(np.float64)).ok


def test_an_int_offset_wraps_at_two_to_the_31():
    # S5's widest rows; S4 multiplies an int row by an int stride alike.
    row, cols = 8192, 262_144

    def offset(dtype: DTypeLike) -> int:
        return int((np.array([row], dtype) * np.array([cols], dtype))[0])

    assert offset(np.int32) == -(2**31)
    assert offset(np.int64) == 2**31

    # The same wrap in 15 bits.
    x = planted(5, 9000, torch.float32, DEVICE, seed=0)
    assert not check(x, outputs.narrow_offsets(x, torch.zeros_like(x), bits=15)).ok
    assert check(x, outputs.narrow_offsets(x, torch.zeros_like(x), bits=33)).ok
