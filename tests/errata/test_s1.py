"""S1, the blog post on a fused Triton softmax."""

import json
from functools import cache

import numpy as np
import pytest
import torch
import triton

from experiments.check import check, planted
from tests.commands import module
from tests.errata import triton_facts
from tests.reference import DEVICE
from tests.wrong import tiles
from tests.wrong.tiles import INF

# The worked example: its input, and what it prints.
INPUT = np.array(
    [
        [2.0, -1.0, 3.0, 0.5, -0.5, 1.5, -2.0, 1.0],
        [4.0, -3.0, 2.5, 1.0, -1.5, 0.0, -0.5, 2.0],
        [-1.0, 3.5, -2.5, 1.5, 0.0, -3.0, 2.5, -0.5],
    ]
)
SUMS = np.array([1.863, 3.717, 4.982])
OUTPUTS = np.array(
    [
        [0.197, 0.010, 0.537, 0.044, 0.016, 0.120, 0.004, 0.072],
        [0.546, 0.001, 0.184, 0.041, 0.003, 0.015, 0.009, 0.110],
        [0.012, 0.665, 0.003, 0.083, 0.030, 0.001, 0.203, 0.018],
    ]
)
RIGHT_EXPONENTIALS = np.exp(INPUT - INPUT.max(axis=1, keepdims=True))
RIGHT_SUMS = RIGHT_EXPONENTIALS.sum(axis=1)
RIGHT_OUTPUTS = RIGHT_EXPONENTIALS / RIGHT_SUMS[:, None]
HALF_A_DIGIT = 0.0005
UNWRITTEN = float("nan")


def test_sums_of_the_worked_example():
    assert RIGHT_SUMS[1:].round(3).tolist() == [1.443, 1.567]
    assert (np.abs(SUMS - RIGHT_SUMS)[1:] > 2).all()


def test_outputs_of_the_worked_example():
    # Labelled as summing to 1.000; divided by neither the printed nor the right sums.
    assert OUTPUTS[1:].sum(axis=1).round(3).tolist() == [0.909, 1.015]
    assert (np.abs(OUTPUTS - RIGHT_EXPONENTIALS / SUMS[:, None])[1:].max(axis=1) > 0.2).all()
    assert (np.abs(OUTPUTS - RIGHT_OUTPUTS)[1:].max(axis=1) > 0.02).all()
    assert RIGHT_OUTPUTS[1:].max(axis=1).round(3).tolist() == [0.693, 0.638]


def test_last_digits_of_the_worked_examples_first_row():
    assert (SUMS[0], round(RIGHT_SUMS[0], 3)) == (1.863, 1.864)
    assert (OUTPUTS[0, -1], RIGHT_OUTPUTS[0, -1].round(3)) == (0.072, 0.073)
    assert (np.abs(OUTPUTS - RIGHT_OUTPUTS)[0, :-1] < HALF_A_DIGIT).all()


def test_padding_is_counted_in_the_tiled_sum():
    x = torch.zeros(3, 1030, device=DEVICE)  # in blocks of 1024: 1018 columns of padding
    y = tiles.padding_in_the_sum(x, torch.empty_like(x), padding=0.0)
    assert not check(x, y).ok
    assert torch.allclose(y.sum(dim=1), torch.full((3,), 1030 / 2048, device=DEVICE))
    assert check(x, tiles.padding_in_the_sum(x, torch.empty_like(x), padding=-INF)).ok


# Triton's interpreter computes in NumPy, which remarks on it.
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_the_tiled_path_overflows_for_all_that_the_maximum_is_subtracted():
    x = planted(3, 1030, torch.float32, DEVICE, seed=0) - 1000
    y = tiles.padding_in_the_sum(x, torch.empty_like(x), padding=0.0)
    assert torch.equal(y, torch.zeros_like(y))  # exp(0 - max) is infinite
    assert check(x, tiles.padding_in_the_sum(x, torch.empty_like(x), padding=-INF)).ok


@cache
def compiled() -> dict[str, int | list[int]]:
    done = module("tests.errata.triton_facts")
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout.splitlines()[-1])


def test_every_batch_size_compiles_the_same_code_again():
    facts = compiled()
    assert facts["keys of a constant"] == len(triton_facts.ROWS)
    assert facts["codes of a constant"] == 1
    assert facts["keys of an argument"] == 1


def test_the_tiled_path_cannot_be_reached():
    def block(cols: int) -> int:
        return max(triton.next_power_of_2(cols), 64)

    widths = [1, 63, 64, 65, 1000, 32_000, 32_768, 50_257, 2**20, 2**20 + 1]
    assert all(cols <= block(cols) for cols in widths)
    # So the rows that only tiles can serve are refused.
    assert tiles.block_runs(block(2**20), DEVICE)
    assert not tiles.block_runs(block(2**20 + 1), DEVICE)


def test_a_program_has_128_threads_whatever_its_block_size():
    facts = compiled()
    assert facts["threads by default"] == [128 for _ in triton_facts.BLOCKS]
    assert facts["threads of 32 warps"] == 1024


def test_outputs_do_not_sum_to_exactly_one():
    x = planted(100, 1000, torch.float32, DEVICE, seed=0)
    y = torch.softmax(x.double(), dim=1).float()  # each output the nearest that float32 has
    error = (y.double().sum(dim=1) - 1).abs()
    assert check(x, y).ok
    assert (error > 0).any()
    assert (error < 1e-6).all()


def test_outputs_reach_both_ends_of_the_open_interval():
    for row, ends in (([0.0, -200.0], [1.0, 0.0]), ([5.0], [1.0])):
        x = torch.tensor([row])
        y = torch.softmax(x, dim=1)
        assert check(x, y).ok
        assert y.tolist() == [ends]
        assert not ((y > 0) & (y < 1)).all()  # S3's check
        assert ((y >= 0) & (y <= 1)).all()


@pytest.mark.parametrize("stride", [2**30, 2**24])
def test_a_programs_row_offset_wraps_at_two_to_the_31(stride: int):
    last = 2**31 // stride
    assert tiles.row_offsets(last + 1, stride, DEVICE)[last] == -(2**31)
    assert tiles.row_offsets(last + 1, stride, DEVICE, wide=True)[last] == 2**31
