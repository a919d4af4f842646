"""What a cross-entropy compiles and launches for a row's width.

Imports neither torch nor CUDA: the build reads it on every machine. With a gradient, rows that
registers hold go by the fastest shape that was measured on this GPU
(``python -m experiments.tune_cross_entropy``), or a rule where none was; else by a rule.
"""

from dataclasses import dataclass
from pathlib import Path

from kernels.frontier import measured
from kernels.frontier.plans import (
    ALIKE,
    HERE,
    HOPPERS,
    VECTOR_BYTES,
    Plan,
    Shape,
    least_lanes,
    vectors_from_line,
)

FILES = ("warp", "held", "stream", "targets", "scale")
INDICES = {"int32": "int", "int64": "long long"}  # of targets, as C++ names them
# Vectors of a row in a thread's registers, as they came: 32 registers of the 64 with which 1024
# threads share a multiprocessor, so that one block loads while another is at its barrier.
HELD, WARP_HELD = 8, 4
WARP_THREADS = 128  # of a block
BLOCKS, WIDEST_BLOCK = (128, 256, 512), 1024
RESIDENT = 1024  # threads of a multiprocessor
CLUSTERS = ((512, 2), (512, 4), (512, 8), (512, 16), (1024, 16))  # threads, blocks
FOLDER = "cross_entropy"  # of select.TABLES
STREAMED = 4  # vectors of a thread on their way at once (cross_entropy_stream.cu)
WIDEST_STREAM, MOST_BLOCKS = 512, 16
BESIDE = 2  # blocks of a multiprocessor below which a streamed row is shared out
TARGETS_THREADS, SCALE_THREADS = 1024, 256
SCALE_BLOCKS = 8  # of a multiprocessor


@dataclass(frozen=True)
class CrossEntropyPlan(Plan):
    """A kernel: a shape, the vectors that a thread holds, edges, and what is asked for.

    ``index`` is the C++ type of targets; ``gradient`` whether that is written; ``smooth`` whether
    labels are smoothed, for which the logits are summed.  Of a stream the sizes are (threads of a
    block, blocks of a row); of a block and a cluster the last is the least number of blocks that a
    multiprocessor has.
    """

    index: str = INDICES["int64"]
    gradient: bool = False
    smooth: bool = False

    @property
    def file(self) -> Path:
        regime = self.shape.regime
        name = "held" if regime in ("block", "cluster") else regime
        return HERE / f"cross_entropy_{name}.cu"

    def expression(self, c_type: str) -> str:
        """The kernel as C++ names it, for elements of ``c_type``."""
        sizes = self.shape.sizes
        match self.shape.regime:
            case "targets":
                return f"cross_entropy_targets<{self.index}, {sizes[0]}>"
            case "scale":
                return f"cross_entropy_scale<{c_type}, {sizes[0]}>"
            case "warp":
                arguments = (*sizes, self.held, self.edges, self.gradient, self.smooth)
            case "stream":
                arguments = (*sizes, self.edges, self.gradient, self.smooth)
            case _:
                arguments = (
                    sizes[0], self.held, self.blocks, sizes[-1], self.edges, self.smooth
                )  # fmt: skip
        words = (c_type, self.index, *(str(a).lower() for a in arguments))
        return f"cross_entropy<{', '.join(words)}>"

    @property
    def blocks(self) -> int:
        """Of a row."""
        return self.shape.sizes[1] if self.shape.regime in ("cluster", "stream") else 1

    @property
    def label(self) -> str:
        """For people."""
        asked = ["gradient"] * self.gradient + ["smooth"] * self.smooth
        return " ".join(["cross entropy", super().label, *asked, f"targets={self.index}"])


TARGETS, SCALE = Shape("targets", (TARGETS_THREADS,)), Shape("scale", (SCALE_THREADS,))


def cross_entropy_plan(
    rows: int, cols: int, size: int, edges: int, arch: int, multiprocessors: int,
    gradient: bool, smooth: bool, index: str, gpu: str = "",
) -> CrossEntropyPlan:  # fmt: skip
    """What serves rows of ``cols`` elements of ``size`` bytes on ``gpu`` (a slug; any, if empty).

    ``arch`` is 90 for sm_90, ``index`` the targets' dtype; without ``gradient``, ``edges`` are not
    APART, since nothing lies where results would.
    """
    assert gradient or edges <= ALIKE
    shape = by_rule(cols, size, edges, arch, gradient)
    if gradient and shape.regime != "warp":
        shape = measured.shape(FOLDER, gpu, arch, cols, size, edges) or shape
    if shape.regime == "stream":
        hopper = arch in HOPPERS
        blocks = _blocks(rows, cols * size // VECTOR_BYTES, multiprocessors) if hopper else 1
        shape = Shape("stream", (*shape.sizes, blocks))
    return plan_of(shape, cols, size, edges, gradient, smooth, index)


def plan_of(
    shape: Shape, cols: int, size: int, edges: int, gradient: bool, smooth: bool, index: str
) -> CrossEntropyPlan:
    """The kernel of ``shape`` for such rows."""
    held = shape.plan(cols, size, edges).held
    # For 5 and 7 vectors of 16 bits the compiler spills, for 6 and 8 it does not.
    held += held % 2 if held > HELD // 2 else 0
    return CrossEntropyPlan(shape, held, int(edges), (), INDICES[index], gradient, smooth)


def by_rule(cols: int, size: int, edges: int, arch: int, gradient: bool) -> Shape:
    """The shape where none was measured, for rows as cross_entropy_plan takes them."""
    vectors = cols * size // VECTOR_BYTES
    if vectors <= 32 * WARP_HELD:
        least = max(least_lanes(size, edges), vectors / WARP_HELD)
        lanes = next(n for n in (1, 2, 4, 8, 16, 32) if n >= least)
        return Shape("warp", (lanes, WARP_THREADS))
    vectors, hopper = vectors_from_line(cols, size, edges), arch in HOPPERS
    if gradient:
        for threads in (*BLOCKS, *(() if hopper else (WIDEST_BLOCK,))):
            if vectors <= HELD * threads:
                return Shape("block", (threads, RESIDENT // threads))
        for threads, blocks in CLUSTERS if hopper else ():
            shape = Shape("cluster", (threads, blocks, RESIDENT // threads))
            if shape.plan(cols, size, edges).held <= HELD:
                return shape
    fitting = (t for t in BLOCKS if vectors <= STREAMED * t)
    return Shape("stream", (next(fitting, WIDEST_STREAM),))


def _blocks(rows: int, vectors: int, multiprocessors: int) -> int:
    """Of a streamed row: more where rows are few, each with two trips at least."""
    blocks = 1
    while (
        blocks < MOST_BLOCKS
        and rows * blocks < BESIDE * multiprocessors
        and vectors >= 4 * blocks * WIDEST_STREAM * STREAMED
    ):
        blocks *= 2
    return blocks
