"""What the gradient of a softmax compiles and launches for a row's width.

Imports neither torch nor CUDA: the build reads it on every machine. The choice is a rule, which no
measurement has set yet.
"""

from dataclasses import dataclass
from pathlib import Path

from kernels.frontier.plans import HERE, HOPPERS, VECTOR_BYTES, Plan, Shape, vectors_from_line

REGIMES = ("warp", "block", "cluster", "stream")
# Elements of y, and as many of dy, in a thread's registers: as floats they take 32, so that two
# blocks of 512 threads share a multiprocessor and the loads of one cover the barrier of the other.
HELD = 16
WARP_THREADS = 128  # of a block
BLOCKS, WIDEST_BLOCK = (128, 256, 512), 1024
CLUSTERS = ((512, 2, 1), (512, 4, 1), (512, 8, 1), (512, 16, 1), (1024, 16, 1))  # a Shape's sizes
STREAM = Shape("stream", (1024,))


@dataclass(frozen=True)
class BackwardPlan(Plan):
    """A kernel: a shape, the vectors that a thread holds of each tensor, edges or not."""

    @property
    def file(self) -> Path:
        return HERE / f"backward_{self.shape.regime}.cu"

    def expression(self, c_type: str) -> str:
        """The kernel as C++ names it, for elements of ``c_type``."""
        sizes, edges = self.shape.sizes, self.edges
        match self.shape.regime:
            case "warp":
                arguments = (*sizes, self.held, edges)
            case "cluster":
                arguments = (sizes[0], self.held, sizes[1], edges)
            case "stream":
                arguments = (sizes[0], edges)
            case _:
                arguments = (sizes[0], self.held, edges)
        return f"softmax_backward<{', '.join(map(str, (c_type, *arguments, *self.given)))}>"

    @property
    def label(self) -> str:
        """For people."""
        return f"backward {super().label}"


def backward_plan(cols: int, size: int, edges: int, arch: int) -> BackwardPlan:
    """What serves rows of ``cols`` elements of ``size`` bytes; ``arch`` is 90 for sm_90."""
    plan = _shape(cols, size, edges, arch).plan(cols, size, edges)
    return BackwardPlan(plan.shape, plan.held, plan.edges)


def _shape(cols: int, size: int, edges: int, arch: int) -> Shape:
    vectors, held = cols * size // VECTOR_BYTES, HELD * size // VECTOR_BYTES
    if vectors <= 32 * held:
        least = 2 * VECTOR_BYTES // size if edges else 1  # a lane for each element of the edges
        lanes = next((n for n in (1, 2, 4, 8, 16) if n >= max(least, vectors / held)), 32)
        return Shape("warp", (lanes, WARP_THREADS))
    vectors, hopper = vectors_from_line(cols, size, edges), arch in HOPPERS
    for threads in (*BLOCKS, *(() if hopper else (WIDEST_BLOCK,))):
        if vectors <= held * threads:
            return Shape("block", (threads, 1))
    for sizes in CLUSTERS if hopper else ():
        shape = Shape("cluster", sizes)
        if shape.plan(cols, size, edges).held <= held:
            return shape
    return STREAM
