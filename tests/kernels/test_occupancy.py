"""Blocks on a multiprocessor: as ncu reports them, and at the ends of each limit."""

import csv

import pytest

from kernels.occupancy import MULTIPROCESSORS, blocks, occupancy
from kernels.registry import ARCHITECTURES
from tests.experiments.test_ncu import REPORT


def reported() -> list[dict[str, str]]:
    """The kernels of a real report of an H200."""
    head, _, *rows = csv.reader(line for line in REPORT.splitlines() if not line.startswith("=="))
    return [
        {k: v.replace(",", "") for k, v in zip(head, row, strict=True)}
        for row in rows
    ]  # fmt: skip


@pytest.mark.parametrize("kernel", reported(), ids=lambda kernel: kernel["ID"])
def test_registers_limit_blocks_as_ncu_says(kernel: dict[str, str]):
    threads = int(kernel["launch__block_size"])
    registers = int(kernel["launch__registers_per_thread"])
    warps = threads // 32
    others = min(32, 64 // warps)  # blocks, and warps: no kernel there is short of shared memory
    by_registers = int(kernel["launch__occupancy_limit_registers"])
    assert blocks("sm_90", threads, registers, 0) == min(others, by_registers)
    most = float(kernel["sm__maximum_warps_per_active_cycle_pct"])
    assert 100 * occupancy("sm_90", threads, registers, 0) == most


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "expected"),
    [
        # 65,536 registers are 64 for each of 1024 threads, twice over with 32.
        ("sm_80", 1024, 32, 0, 2),
        ("sm_80", 1024, 33, 0, 1),
        ("sm_80", 1024, 64, 0, 1),
        ("sm_80", 1024, 65, 0, 0),
        ("sm_80", 1024, 78, 256, 0),  # S5's block of 78 registers a thread
        # Registers come by 8 a thread: 37 are 40, and 48 warps have them.
        ("sm_90", 512, 37, 0, 3),
        ("sm_90", 512, 40, 0, 3),
        ("sm_90", 512, 41, 0, 2),
        # 255 are 256: two warps in each of four partitions.
        ("sm_80", 128, 255, 0, 2),
        ("sm_80", 32, 255, 0, 8),
        # 168 are 12 warps, three a partition; as one pool they would be 12.19.
        ("sm_80", 128, 168, 0, 3),
        # 32 blocks at most, 64 warps at most.
        ("sm_90", 32, 16, 0, 32),
        ("sm_90", 1, 16, 0, 32),
        ("sm_90", 128, 16, 0, 16),
        ("sm_90", 96, 16, 0, 21),
        # A block's shared memory takes 1 KiB more, and comes by 128 bytes.
        ("sm_80", 32, 16, 163 * 1024, 1),
        ("sm_80", 32, 16, 81 * 1024, 2),
        ("sm_80", 32, 16, 81 * 1024 + 1, 1),
        ("sm_90", 32, 16, 227 * 1024, 1),
        ("sm_90", 32, 16, 113 * 1024, 2),
        ("sm_90", 32, 16, 227 * 1024 + 1, 0),
        ("sm_80", 2048, 16, 0, 0),
    ],
)
def test_the_scarcest_resource_decides(
    arch: str, threads: int, registers: int, shared: int, expected: int
):
    assert blocks(arch, threads, registers, shared) == expected


@pytest.mark.parametrize(
    ("threads", "registers", "share"),
    [(1024, 64, 0.5), (1024, 32, 1.0), (128, 152, 12 / 64), (96, 16, 63 / 64), (1024, 78, 0.0)],
)
def test_occupancy_is_the_share_of_warps(threads: int, registers: int, share: float):
    assert occupancy("sm_80", threads, registers, 0) == share


def test_every_architecture_that_is_built_has_its_limits():
    assert set(MULTIPROCESSORS) == set(ARCHITECTURES)
