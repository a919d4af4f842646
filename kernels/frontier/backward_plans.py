"""What the gradient of a softmax compiles and launches for a row's width.

Imports neither torch nor CUDA: the build reads it on every machine. The fastest shape that was
measured on this GPU (``python -m experiments.tune_backward``), or a rule where none was.
"""

from dataclasses import dataclass
from pathlib import Path

from kernels.frontier import measured
from kernels.frontier.plans import HERE, HOPPERS, VECTOR_BYTES, Plan, Shape, vectors_from_line

REGIMES = ("warp", "block", "cluster", "grid", "stream")
# Elements of y, and as many of dy, in a thread's registers: as floats they take 32.
HELD = 16
WARP_THREADS = 128  # of a block
BLOCKS, WIDEST_BLOCK = (128, 256, 512), 1024
CLUSTERS = ((512, 2), (512, 4), (512, 8), (512, 16), (1024, 16))  # threads, blocks
STREAM = Shape("stream", (1024,))
# Threads of a multiprocessor, by the size of elements.  Of 16 bits they can be as they came until
# they are stored: 40 registers, where the compiler would take 48 and two blocks of 512 took a fifth
# longer than three (128,256 columns on an H200).
RESIDENT = {4: 1024, 2: 1536}
FOLDER = "backward"  # of select.TABLES


@dataclass(frozen=True)
class BackwardPlan(Plan):
    """A kernel: a shape, the vectors that a thread holds of each tensor, edges or not.

    A fourth size of clusters and grids is how many of these lie in shared memory.
    """

    @property
    def file(self) -> Path:
        return HERE / f"backward_{self.shape.regime}.cu"

    def expression(self, c_type: str) -> str:
        """The kernel as C++ names it, for elements of ``c_type``."""
        sizes, edges = self.shape.sizes, self.edges
        match self.shape.regime:
            case "warp":
                arguments = (*sizes, self.held, edges)
            case "stream":
                arguments = (sizes[0], edges)
            case "cluster":
                arguments = (sizes[0], self.held - self.stashed, self.stashed, *sizes[1:3], edges)
            case "grid":
                arguments = (sizes[0], self.held - self.stashed, self.stashed, sizes[2], edges)
            case _:
                arguments = (sizes[0], self.held, *sizes[1:], edges)
        return f"softmax_backward<{', '.join(map(str, (c_type, *arguments, *self.given)))}>"

    @property
    def stashed(self) -> int:
        """Of the vectors held, those in shared memory."""
        return min(self.held - 1, self.shape.sizes[3]) if len(self.shape.sizes) > 3 else 0

    @property
    def ring_bytes(self) -> int:
        """Bytes of shared memory that a block is launched with."""
        return self.shape.sizes[0] * self.stashed * 2 * VECTOR_BYTES

    @property
    def label(self) -> str:
        """For people."""
        return f"backward {super().label}"


def backward_plan(
    cols: int, size: int, edges: int, arch: int, multiprocessors: int, gpu: str = ""
) -> BackwardPlan:  # fmt: skip
    """What serves rows of ``cols`` elements of ``size`` bytes on ``gpu`` (a slug; any, if empty).

    ``arch`` is 90 for sm_90.
    """
    shape = measured.shape(FOLDER, gpu, arch, cols, size, edges)
    if not shape or not possible(shape, arch, multiprocessors):
        shape = _by_rule(cols, size, edges, arch)
    return plan_of(shape, cols, size, edges)


def possible(shape: Shape, arch: int, multiprocessors: int) -> bool:
    """Whether a GPU has what ``shape`` needs: clusters, a copy engine, room for a team."""
    stashed = len(shape.sizes) > 3
    if (shape.regime == "cluster" or stashed) and arch not in HOPPERS:
        return False
    return shape.regime != "grid" or teams(shape, multiprocessors) > 0


def teams(shape: Shape, multiprocessors: int) -> int:
    """Rows that blocks of a ``grid`` have at once, where all of them are on the GPU."""
    _, parts, least, *_ = shape.sizes
    return least * multiprocessors // parts


def plan_of(shape: Shape, cols: int, size: int, edges: int) -> BackwardPlan:
    """The kernel of ``shape`` for such rows."""
    plan = shape.plan(cols, size, edges)
    return BackwardPlan(plan.shape, plan.held, plan.edges)


def least_lanes(size: int, edges: int) -> int:
    """The fewest lanes that a row may have: one for each element of the edges."""
    return 2 * VECTOR_BYTES // size if edges else 1


def _by_rule(cols: int, size: int, edges: int, arch: int) -> Shape:
    vectors, held = cols * size // VECTOR_BYTES, HELD * size // VECTOR_BYTES
    if vectors <= 32 * held:
        least = least_lanes(size, edges)
        lanes = next((n for n in (1, 2, 4, 8, 16) if n >= max(least, vectors / held)), 32)
        return Shape("warp", (lanes, WARP_THREADS))
    vectors, hopper = vectors_from_line(cols, size, edges), arch in HOPPERS
    for threads in (*BLOCKS, *(() if hopper else (WIDEST_BLOCK,))):
        if vectors <= held * threads:
            return Shape("block", (threads, RESIDENT[size] // threads))
    for threads, blocks in CLUSTERS if hopper else ():
        shape = Shape("cluster", (threads, blocks, RESIDENT[size] // threads))
        if shape.plan(cols, size, edges).held <= held:
            return shape
    return STREAM
