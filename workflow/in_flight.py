"""How much a multiprocessor has on its way: of the kernel that an H200 launches for some rows.

From the code as it is compiled and from the launch, without a GPU.
"""

from dataclasses import dataclass
from functools import cache

from experiments.launched import Gpu, request
from experiments.layout import Place
from kernels.compiled import Job
from kernels.frontier.compiler import compile_plan
from kernels.frontier.plans import VECTOR_BYTES, Plan, staged_bytes, tile_rows
from kernels.frontier.select import DEFAULT, select
from kernels.occupancy import blocks
from kernels.registry import ELEMENT_BYTES

H200, ARCH = Gpu(DEFAULT, 90, 132), "sm_90"
STREAMED = 4  # vectors of a thread at once (stream.cu)


@dataclass(frozen=True)
class Served:
    """What serves ``place``: ``fit`` blocks of ``plan`` share a multiprocessor.

    A block loads ``block_bytes`` at most before it waits for them.
    """

    place: Place
    plan: Plan
    fit: int
    block_bytes: float

    @property
    def blocks(self) -> int:
        """Of the whole launch, as frontier.py launches them."""
        shape, rows = self.plan.shape, self.place.rows
        match shape.regime:
            case "warp":
                return -(-rows // (self.plan.threads // shape.sizes[0] * shape.together))
            case "tile":
                size = ELEMENT_BYTES[self.place.dtype]
                return -(-rows // tile_rows(shape, self.place.cols, size))
            case "cluster" | "staged" | "grid":
                return rows * shape.sizes[1]
            case "chunks":
                return H200.multiprocessors
        return rows

    @property
    def at_once(self) -> int:
        """Blocks of a multiprocessor: fewer than fit where a launch has no more."""
        if self.plan.shape.regime in ("cluster", "grid"):
            return min(self.fit, -(-self.blocks // H200.multiprocessors))
        return self.fit

    @property
    def kilobytes(self) -> int:
        """On their way of a multiprocessor, at most."""
        return round(self.at_once * self.block_bytes / 1024)

    @property
    def waves(self) -> float:
        """Of the launch: its blocks over those that fit the GPU at once."""
        return self.blocks / (self.fit * H200.multiprocessors)


@cache
def served(place: Place) -> Served:
    """What an H200 launches at ``place``."""
    dtype, _, cols, _ = place
    asked, size = request(place, H200), ELEMENT_BYTES[dtype]
    shape = select(asked, DEFAULT)
    plan = shape.plan(cols, size, asked.edges)
    used = compile_plan(plan, Job("frontier", dtype, ARCH)).kernels[0].resources
    assert used.registers is not None
    assert used.static_shared_bytes is not None
    shared = used.static_shared_bytes + plan.ring_bytes
    of_block, row = plan.threads * plan.held * shape.together * VECTOR_BYTES, cols * size
    match shape.regime:
        case "tile":
            of_block = tile_rows(shape, cols, size) * row
            shared += of_block + VECTOR_BYTES
        case "block":
            of_block = min(of_block, row)
        case "cluster" | "grid":
            of_block = min(of_block, row / shape.sizes[1])
        case "staged":
            of_block = row / shape.sizes[1]
            shared += staged_bytes(shape, cols, size, asked.edges)
        case "chunks":
            of_block = shape.sizes[0] * shape.sizes[6] * VECTOR_BYTES
        case "stream":
            of_block = plan.threads * STREAMED * VECTOR_BYTES
    fit = blocks(ARCH, plan.threads, used.registers, shared)
    return Served(place, plan, fit, of_block)
