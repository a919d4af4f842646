"""The variants, as data.

Imports neither torch nor triton, so the workflow reads it on every machine.
Adding a variant is one kernel file and one line in ``VARIANTS``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent
ELEMENT_BYTES: Mapping[str, int] = {"float32": 4, "float16": 2, "bfloat16": 2}
DTYPES = tuple(ELEMENT_BYTES)
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")


@dataclass(frozen=True)
class Launch:
    """How a CUDA kernel is launched: one block per row.

    ``threads`` holds (columns, threads) pairs in ascending order; the first pair
    whose columns are not exceeded gives the block size, the last pair serves all
    wider rows.
    """

    threads: tuple[tuple[int, int], ...]
    shared_bytes_per_thread: int = 0

    def block(self, cols: int) -> tuple[int, int]:
        """Threads and dynamic shared memory (bytes) of a block for rows of ``cols``."""
        threads = next((n for limit, n in self.threads if cols <= limit), self.threads[-1][1])
        return threads, threads * self.shared_bytes_per_thread


@dataclass(frozen=True)
class Variant:
    """One implementation of a row softmax.

    ``reads`` and ``writes`` count the passes over a rows x cols tensor that the variant's
    code asks for; ``beyond`` = (columns, reads) holds for rows wider than that.
    ``graph`` is False where a CUDA graph would run something else than a plain call does.
    """

    name: str
    file: str
    publication: str
    reads: int
    writes: int
    teaches: str
    beyond: tuple[int, int] | None = None
    max_cols: int | None = None
    max_cols_reason: str = ""
    dtypes: tuple[str, ...] = DTYPES
    cpu: bool = False
    ceiling: bool = False
    launch: Launch | None = None
    graph: bool = True

    @property
    def framework(self) -> str:
        """The folder of the file: torch, triton, cuda or peers."""
        return self.file.split("/")[0]

    @property
    def path(self) -> Path:
        return ROOT / self.file

    def passes(self, cols: int) -> int:
        """Trips of a rows x cols tensor through memory, reads and writes together."""
        if self.beyond is not None and cols > self.beyond[0]:
            return self.beyond[1] + self.writes
        return self.reads + self.writes

    def refusal(self, dtype: str, cols: int, device: str = "cuda") -> str | None:
        """Why this variant cannot do a point, or None if it can."""
        if device == "cpu" and not self.cpu:
            return "needs a CUDA GPU"
        if dtype not in self.dtypes:
            return f"takes {' and '.join(self.dtypes)} only"
        if self.max_cols is not None and cols > self.max_cols:
            return f"takes at most {self.max_cols} columns: {self.max_cols_reason}"
        return None


# fmt: off
VARIANTS = (
    Variant("copy_torch", "torch/copy_torch.py", "-", reads=1, writes=1, ceiling=True, cpu=True,
            teaches="what torch's own copy reaches"),
    Variant("copy_memcpy", "torch/copy_memcpy.py", "-", reads=1, writes=1, ceiling=True,
            # A graph gives copies of 512 MiB to the copy engine: 2.75 TB/s on an H200 (driver
            # 580), where the same call on a stream runs on the multiprocessors at 4.2.
            graph=False,
            teaches="what the driver's copy reaches"),
    Variant("torch_eager", "torch/torch_eager.py", "S1-S5", reads=1, writes=1, cpu=True,
            teaches="the baseline that every publication compares with"),
    Variant("torch_naive", "torch/torch_naive.py", "S2", reads=5, writes=3, cpu=True,
            teaches="what five unfused steps cost"),
    Variant("torch_compile", "torch/torch_compile.py", "-", reads=1, writes=1,
            teaches="what the compiler fuses by itself"),
    Variant("triton_row", "triton/triton_row.py", "S2", reads=1, writes=1, cpu=True,
            max_cols=131_072, max_cols_reason="a program would hold the row, most of it spilled",
            teaches="one program per row, read once while the row fits in registers"),
    Variant("triton_hybrid", "triton/triton_hybrid.py", "S1", reads=1, writes=1, cpu=True,
            beyond=(16_384, 3),
            teaches="where holding the row should give way to reading it three times"),
    Variant("triton_online", "triton/triton_online.py", "S1, S5", reads=2, writes=1, cpu=True,
            teaches="maximum and sum in one sweep: three reads become two"),
    Variant("cuda_thread_row", "cuda/cuda_thread_row.cu", "S4", reads=3, writes=1,
            launch=Launch(threads=((1, 1),)),
            teaches="how little one thread per row asks of the memory"),
    Variant("cuda_block_tree", "cuda/cuda_block_tree.cu", "S4", reads=3, writes=1,
            launch=Launch(threads=((1, 256),), shared_bytes_per_thread=4),
            teaches="a block per row with a shared-memory tree"),
    Variant("cuda_float4", "cuda/cuda_float4.cu", "S4", reads=3, writes=2, dtypes=("float32",),
            # S4 found its best block to be 512 threads up to 14,080 columns and 1024 above.
            launch=Launch(threads=((14_080, 512), (14_081, 1024)), shared_bytes_per_thread=4),
            teaches="16-byte loads, and what parking exp(x) in the output costs"),
)
# fmt: on


def _index(variants: tuple[Variant, ...]) -> Mapping[str, Variant]:
    names = [v.name for v in variants]
    doubles = sorted({n for n in names if names.count(n) > 1})
    if doubles:
        raise ValueError(f"registered twice in kernels/registry.py: {', '.join(doubles)}")
    for v in variants:
        if not v.path.exists():
            raise ValueError(f"{v.name} in kernels/registry.py names a missing file: {v.path}")
        if v.framework == "cuda" and v.launch is None:
            raise ValueError(f"{v.name} in kernels/registry.py needs launch=Launch(threads=...)")
    return {v.name: v for v in variants}


BY_NAME = _index(VARIANTS)


def variant(name: str) -> Variant:
    """The variant called ``name``; a KeyError that lists the known names otherwise."""
    if name not in BY_NAME:
        raise KeyError(f"unknown variant '{name}'; known: {', '.join(BY_NAME)}")
    return BY_NAME[name]
