"""S5, the worklog on online softmax: what its steps compute and move."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from experiments.check import check, planted
from tests.reference import DEVICE
from tests.wrong import online, outputs


def test_a_thread_that_starts_with_minus_infinity_makes_its_row_nan():
    x = planted(3, 4096, torch.float32, DEVICE, seed=0)
    x[:, 5] = -torch.inf
    y = online.masked_start(x, torch.empty_like(x), guarded=False)
    assert y.isnan().all()
    assert not check(x, y).ok
    assert check(x, online.masked_start(x, torch.empty_like(x), guarded=True)).ok


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
def test_a_block_of_eight_warps_or_fewer_returns_nan(warps: int):
    x = planted(3, 4 * 32 * warps, torch.float32, DEVICE, seed=0)
    y = online.short_block(x, torch.empty_like(x), warps, guarded=False)
    assert y.isnan().all()
    assert not check(x, y).ok
    assert check(x, online.short_block(x, torch.empty_like(x), warps, guarded=True)).ok
    # From 16 warps on no two empty lanes meet on their way to lane 0.
    x = planted(3, 4096, torch.float32, DEVICE, seed=0)
    assert check(x, online.short_block(x, torch.empty_like(x), 16, guarded=False)).ok


def test_columns_past_a_multiple_of_4096_are_left_out():
    x = planted(3, 6144, torch.float32, DEVICE, seed=0)
    assert not check(x, outputs.dropped_tail(x, torch.zeros_like(x), width=4 * 1024)).ok
    assert check(x, outputs.dropped_tail(x, torch.zeros_like(x), width=1)).ok


class Memory:
    """Rows in memory, which count how often they are read and written."""

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self.moved = 0.0

    def read(self, part: slice) -> Tensor:
        self.moved += self.values[:, part].numel() / self.values.numel()
        return self.values[:, part].clone()

    def write(self, part: slice, values: Tensor) -> None:
        self.moved += values.numel() / self.values.numel()
        self.values[:, part] = values


CHUNKS = [slice(start, start + 1024) for start in range(0, 8192, 1024)]


def first_as_told(x: Memory, out: Memory) -> list[tuple[Tensor, Tensor]]:
    """A chunk's maximum and sum; exp(x - its maximum) stays in the output."""
    partials = []
    for part in CHUNKS:
        v = x.read(part)
        peak = v.amax(dim=1, keepdim=True)
        numerator = (v - peak).exp()
        out.write(part, numerator)
        partials.append((peak, numerator.sum(dim=1, keepdim=True)))
    return partials


def first_as_coded(x: Memory, out: Memory) -> list[tuple[Tensor, Tensor]]:
    """A chunk's maximum and sum, and nothing else."""
    partials = []
    for part in CHUNKS:
        v = x.read(part)
        peak = v.amax(dim=1, keepdim=True)
        partials.append((peak, (v - peak).exp().sum(dim=1, keepdim=True)))
    return partials


def second(x: Memory, out: Memory, partials: list[tuple[Tensor, Tensor]], told: bool) -> None:
    """Rescale the output, as told, or read the input again, as coded."""
    peak = torch.stack([p for p, _ in partials]).amax(dim=0)
    total = torch.stack([s * (p - peak).exp() for p, s in partials]).sum(dim=0)
    for part, (mine, _) in zip(CHUNKS, partials, strict=True):
        if told:
            out.write(part, out.read(part) * ((mine - peak).exp() / total))
        else:
            out.write(part, (x.read(part) - peak).exp() / total)


def traffic(first: Callable[[Memory, Memory], list[tuple[Tensor, Tensor]]], told: bool) -> float:
    """Trips of the row through memory, in a split softmax that is right."""
    row = planted(3, 8192, torch.float32, DEVICE, seed=0)
    x, out = Memory(row), Memory(torch.zeros_like(row))
    second(x, out, first(x, out), told)
    assert check(row, out.values).ok
    return x.moved + out.moved


def test_the_split_kernel_moves_a_row_three_times_as_coded_and_four_times_as_told():
    stated = 3  # one read, then one read and one write
    assert traffic(first_as_told, told=True) == 4
    assert traffic(first_as_told, told=True) != stated
    assert traffic(first_as_coded, told=False) == stated


def test_normalising_does_not_take_the_error_of_expf_away():
    # __expf(x) is 2^(x log2 e), the product rounded (test_s5_compiled.py looks at its code).
    depth = torch.linspace(0, -87, 1000)
    right = depth.double().exp()
    rounded = torch.exp2((depth * 1.4426950408889634).double())

    def error(numerator: Tensor, reference: Tensor) -> float:
        return float((numerator / reference - 1).abs().max())

    def softmax(numerator: Tensor) -> Tensor:
        return numerator / numerator.sum()

    before = error(rounded, right)
    after = error(softmax(rounded), softmax(right))
    assert before > 2e-6
    assert after > 0.9 * before
    # What is common to the row does cancel, and expf has an error of half a step to begin with.
    assert error(softmax(right * (1 + before)), softmax(right)) < 1e-12
    assert error(softmax(right.float().double()), softmax(right)) < 2e-7
