"""By how much a sweep differs from itself, on tables whose spread is known."""

import math

import pytest

from experiments.variation import variation
from tests.experiments.raw import raw, row


def test_processes_and_noise():
    rows = []
    for block, slow in enumerate((0.98, 1.0, 1.02)):
        rows += [
            row("copy_torch", 100 * slow, block=block),
            row("copy_memcpy", 200, block=block),
            # As much slower in the same process: nothing of it is left in the fraction.
            row("torch_eager", 200 * slow, block=block),
            row("torch_eager/again", 202 * slow, block=block),
            row("triton_row", 200, block=block),
            row("triton_row", 9000, block=block, timer="call"),
        ]
    found = variation(raw(*rows))
    # Two of the five variants vary, by 2% each way: the 95th percentile is theirs.
    assert found.processes == pytest.approx(0.02, rel=0.01)
    assert found.noise == pytest.approx(0.01)


def test_without_a_pair_there_is_no_noise_floor():
    found = variation(raw(row("copy_torch", 100), row("triton_row", 200)))
    assert found.processes == 0
    assert math.isnan(found.noise)
