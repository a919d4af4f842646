"""Processes of the pool are forked, and CUDA does not survive a fork: theirs must be their own."""

import pytest
import torch

from experiments.pool import pool

pytestmark = pytest.mark.gpu


def on_the_gpu(n: int) -> float:
    return float(torch.arange(n, device="cuda").sum())


def test_the_pools_processes_reach_the_gpu_whatever_this_one_did():
    assert on_the_gpu(3) == 3
    with pool("cuda") as processes:
        assert list(processes.map(on_the_gpu, range(1, 5))) == [0, 1, 3, 6]
