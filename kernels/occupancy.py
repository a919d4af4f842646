"""How many blocks of a kernel share a multiprocessor: what compiled code says without a GPU.

Limits: CUDA C++ Programming Guide, technical specifications by compute capability.  How registers
and shared memory are handed out: the occupancy calculator of Nsight Compute.
"""

from collections.abc import Mapping
from dataclasses import dataclass

WARP = 32
MOST_THREADS = 1024  # of a block
# A multiprocessor is four partitions, each with a quarter of the registers; a warp lives in one.
PARTITIONS = 4
REGISTER_UNIT = 256  # a warp's registers are handed out by as many
SHARED_UNIT = 128  # bytes
RESERVED_BYTES = 1024  # of shared memory, by the system for each block


@dataclass(frozen=True)
class Multiprocessor:
    """What the blocks on one multiprocessor share."""

    warps: int
    blocks: int
    registers: int
    shared_bytes: int


MULTIPROCESSORS: Mapping[str, Multiprocessor] = {
    "sm_80": Multiprocessor(warps=64, blocks=32, registers=65_536, shared_bytes=164 * 1024),
    "sm_90": Multiprocessor(warps=64, blocks=32, registers=65_536, shared_bytes=228 * 1024),
    "sm_100": Multiprocessor(warps=64, blocks=32, registers=65_536, shared_bytes=228 * 1024),
}


def blocks(arch: str, threads: int, registers: int, shared_bytes: int) -> int:
    """Blocks that run on a multiprocessor at once; 0 where not even one can.

    ``registers`` are those of a thread, ``shared_bytes`` those of a block, static and dynamic.
    """
    limits = MULTIPROCESSORS[arch]
    if threads > MOST_THREADS:
        return 0
    warps = -(-threads // WARP)
    warp_registers = _up(registers * WARP, REGISTER_UNIT)
    resident_warps = PARTITIONS * (limits.registers // PARTITIONS // warp_registers)
    block_bytes = _up(shared_bytes + RESERVED_BYTES, SHARED_UNIT)
    return min(
        limits.blocks,
        limits.warps // warps,
        resident_warps // warps,
        limits.shared_bytes // block_bytes,
    )


def occupancy(arch: str, threads: int, registers: int, shared_bytes: int) -> float:
    """The share of a multiprocessor's warps that the blocks on it have, from 0 to 1."""
    warps = -(-threads // WARP)
    return blocks(arch, threads, registers, shared_bytes) * warps / MULTIPROCESSORS[arch].warps


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
