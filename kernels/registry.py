"""The variants, as data.

Imports neither torch nor triton, so the workflow reads it on every machine.
Adding a variant is one kernel file and one line in ``VARIANTS``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parent
ELEMENT_BYTES: Mapping[str, int] = {"float32": 4, "float16": 2, "bfloat16": 2}
DTYPES = tuple(ELEMENT_BYTES)
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
# The folders of kernels, and what their variants are written with, or whose they are.
FRAMEWORKS = ("torch", "triton", "cuda", "frontier", "peers")


@dataclass(frozen=True)
class Launch:
    """How a CUDA kernel is launched: a block per row, unless a field says otherwise.

    A kernel that streams its row names ``threads``: (columns, threads) pairs in ascending order;
    the first pair whose columns are not exceeded gives the block, the last serves wider rows.
    A kernel that holds its row names ``tiles``: (threads, 16-byte vectors a thread) pairs, for each
    of which it is compiled; the first that holds the row is launched.
    ``rows`` are the rows that a block's warps share out; ``splits`` the blocks that share a row in
    two launches, ``partials`` and ``finish``; ``defines`` are macros for the file's compilation.
    ``whole`` has every kernel compiled twice: for rows that fill what it is made for with vectors
    on 16 bytes, and for any other, where each load looks for the row's end.
    """

    threads: tuple[tuple[int, int], ...] = ()
    shared_bytes_per_thread: int = 0
    tiles: tuple[tuple[int, int], ...] = ()
    rows: int = 1
    splits: int = 1
    defines: tuple[str, ...] = ()
    whole: bool = False

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels in the file, in the order of their launches."""
        return ("partials", "finish") if self.splits > 1 else ("softmax",)

    def tile(self, cols: int) -> tuple[int, int] | None:
        """The first tile that holds a row of ``cols``; None where the kernel streams.

        Raises ValueError for a row that no tile holds.
        """
        if not self.tiles:
            return None
        share = -(-cols // (4 * self.splits))  # vectors that a block has to hold
        for threads, vectors in self.tiles:
            if share <= threads // self.rows * vectors:
                return threads, vectors
        raise ValueError(f"{cols} columns are more than any of the tiles {self.tiles} holds")

    def block(self, cols: int) -> tuple[int, int]:
        """Threads and dynamic shared memory (bytes) of a block for rows of ``cols``."""
        if tile := self.tile(cols):
            return tile[0], 0
        threads = next((n for limit, n in self.threads if cols <= limit), self.threads[-1][1])
        return threads, threads * self.shared_bytes_per_thread

    def cols_held(self, tile: tuple[int, int] | None) -> int:
        """Columns that a row may have for ``tile`` to hold it; 0 where the kernel streams."""
        return tile[0] // self.rows * tile[1] * 4 * self.splits if tile else 0

    def filled(self, cols: int) -> bool:
        """Whether a row of ``cols`` leaves no vector of its tile, or of a block's share, short."""
        if tile := self.tile(cols):
            return cols == self.cols_held(tile)
        return cols % (4 * self.splits) == 0


@dataclass(frozen=True)
class Variant:
    """One implementation of a row softmax.

    ``reads`` and ``writes`` count the passes over a rows x cols tensor that the variant's
    code asks for; ``beyond`` = (columns, reads) holds for rows wider than that.
    ``graph`` is False where a CUDA graph would run something else than a plain call does.
    ``k`` says how many of a row's largest probabilities it gives; 0: the whole row.
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
    # Keyword arguments of the file's softmax(x, out, ...): one file, several variants.
    options: tuple[tuple[str, int], ...] = ()
    k: int = 0

    @property
    def framework(self) -> str:
        """The folder of the file: one of FRAMEWORKS."""
        return self.file.split("/")[0]

    @property
    def path(self) -> Path:
        return ROOT / self.file

    def passes(self, cols: int) -> int:
        """Trips of a rows x cols tensor through memory, reads and writes together.

        What a variant gives of a row's largest is no such tensor and comes on top.
        """
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
        if cols < self.k:
            return f"takes at least {self.k} columns: it gives the {self.k} largest"
        return None


# S5 gives rows of 1024 columns 256 threads, of 2048 columns 512, and wider ones 1024.
_BY_COLS = ((1024, 256), (2048, 512), (2049, 1024))
# S4 found its best block to be 512 threads up to 14,080 columns and 1024 above.
_CROSSING = ((14_080, 512), (14_081, 1024))
_SPILLED = "more floats a thread than registers"
TOP = (1, 2, 4, 8, 16, 32)
_MG18 = "Milakov and Gimelshein 2018"


def _topk(k: int, threads: int) -> Launch:
    """Both numbers are constants of the code: its lists are in registers, then side by side."""
    return Launch(threads=((1, threads),), defines=(f"K={k}", f"THREADS={threads}"))


def _exact(published: Variant) -> tuple[Variant, Variant]:
    """A kernel of S5 with __expf as published, and with expf: the price of accuracy."""
    assert published.launch is not None
    exact = replace(published, name=f"{published.name}_exact",
                    launch=replace(published.launch, defines=("EXACT",)),
                    teaches=f"{published.name} with expf: the price of accuracy")  # fmt: skip
    return published, exact


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
    *(Variant(f"triton_tiled_{block}", "triton/triton_tiled.py", "S1", reads=3, writes=1, cpu=True,
              options=(("block", block),),
              teaches="S1's tiled path, which its own wrapper never reached")
      for block in (1024, 4096, 16_384)),
    Variant("triton_row_f64", "triton/triton_row_f64.py", "S1", reads=1, writes=1, cpu=True,
            max_cols=131_072, max_cols_reason="a program would hold the row, most of it spilled",
            teaches="what summing in float64 costs where the row is held"),
    Variant("triton_tiled_f64", "triton/triton_tiled_f64.py", "S1", reads=3, writes=1, cpu=True,
            teaches="what summing in float64 costs where the row is streamed"),
    Variant("triton_constant", "triton/triton_constant.py", "S1", reads=1, writes=1, cpu=True,
            max_cols=131_072, max_cols_reason="a program would hold the row, most of it spilled",
            teaches="shapes as constants: a compilation for each"),
    Variant("triton_persistent", "triton/triton_persistent.py", "S2", reads=1, writes=1, cpu=True,
            max_cols=16_384, max_cols_reason="the rows loaded ahead would not fit in shared memory",
            teaches="as many programs as fit, each loading its next row while it works on one"),
    Variant("triton_online", "triton/triton_online.py", "S1, S5", reads=2, writes=1, cpu=True,
            teaches="maximum and sum in one sweep: three reads become two"),
    Variant("triton_held", "triton/triton_held.py", "-", reads=1, writes=1, cpu=True,
            max_cols=65_536, max_cols_reason="a program would hold the row, much of it spilled",
            teaches="vectors wherever a row starts, and as many a lane as the row needs"),
    Variant("triton_grid", "triton/triton_grid.py", "-", reads=1, writes=1,
            teaches="a row in parts that are dealt to all programs and wait for one another"),
    Variant("triton_frontier", "triton/triton_frontier.py", "-", reads=1, writes=1, cpu=True,
            teaches="how near to copy Triton comes at every width"),
    Variant("cuda_thread_row", "cuda/cuda_thread_row.cu", "S4", reads=3, writes=1,
            launch=Launch(threads=((1, 1),)),
            teaches="how little one thread per row asks of the memory"),
    Variant("cuda_block_serial", "cuda/cuda_block_serial.cu", "S4", reads=3, writes=1,
            launch=Launch(threads=((1, 256),)),
            teaches="a block per row, one thread of which combines"),
    Variant("cuda_block_tree", "cuda/cuda_block_tree.cu", "S4", reads=3, writes=1,
            launch=Launch(threads=((1, 256),), shared_bytes_per_thread=4),
            teaches="a block per row with a shared-memory tree"),
    Variant("cuda_float4", "cuda/cuda_float4.cu", "S4", reads=3, writes=2, dtypes=("float32",),
            launch=Launch(threads=_CROSSING, shared_bytes_per_thread=4),
            teaches="16-byte loads, and what parking exp(x) in the output costs"),
    *(Variant(f"cuda_float4_{threads}", "cuda/cuda_float4.cu", "S4", reads=3, writes=2,
              dtypes=("float32",),
              launch=Launch(threads=((1, threads),), shared_bytes_per_thread=4),
              teaches=f"the same with {threads} threads for every row")
      for threads in (256, 512, 1024)),
    Variant("cuda_warp_reduce", "cuda/cuda_warp_reduce.cu", "S4", reads=3, writes=2,
            dtypes=("float32",), launch=Launch(threads=_CROSSING),
            teaches="shuffles for the tree"),
    *_exact(Variant("cuda_warp_row", "cuda/cuda_warp_row.cu", "S5", reads=1, writes=1,
                    dtypes=("float32",), max_cols=8192, max_cols_reason=_SPILLED,
                    launch=Launch(tiles=tuple((128, 2**k) for k in range(7)), rows=4, whole=True),
                    teaches="a warp per row, the row in registers")),
    *_exact(Variant("cuda_block_row", "cuda/cuda_block_row.cu", "S5", reads=1, writes=1,
                    dtypes=("float32",), max_cols=262_144, max_cols_reason=_SPILLED,
                    launch=Launch(tiles=tuple((1024, 2**k) for k in range(7)), whole=True),
                    teaches="a block per row, the row in registers")),
    *_exact(Variant("cuda_online_row", "cuda/cuda_online_row.cu", "S5", reads=1, writes=1,
                    dtypes=("float32",), max_cols=65_536,
                    max_cols_reason="S5 reads wider rows twice (cuda_online_reload)",
                    launch=Launch(tiles=((256, 1), (512, 1), *((1024, 2**k) for k in range(5))),
                                  whole=True),
                    teaches="maximum and sum in one sweep, the row in registers")),
    *_exact(Variant("cuda_online_reload", "cuda/cuda_online_reload.cu", "S5", reads=2, writes=1,
                    dtypes=("float32",), launch=Launch(threads=_BY_COLS, whole=True),
                    teaches="maximum and sum in one sweep, the row read again")),
    *_exact(Variant("cuda_split_reread", "cuda/cuda_split_reread.cu", "S5", reads=2, writes=1,
                    dtypes=("float32",),
                    launch=Launch(threads=tuple((8 * c, t) for c, t in _BY_COLS), splits=8,
                                  whole=True),
                    teaches="a row over 8 blocks, two launches, the row read again")),
    *_exact(Variant("cuda_split_rescale", "cuda/cuda_split_rescale.cu", "S5", reads=2, writes=2,
                    dtypes=("float32",), max_cols=262_144, max_cols_reason=_SPILLED,
                    launch=Launch(tiles=((256, 1), (512, 1), *((1024, 2**k) for k in range(4))),
                                  splits=8, whole=True),
                    teaches="a row over 8 blocks, two launches, the output rescaled")),
    *(Variant(f"torch_topk_{k}", "torch/torch_topk.py", _MG18, reads=2, writes=1, cpu=True, k=k,
              options=(("k", k),),
              teaches=f"the {k} largest of a softmax that was written for them")
      for k in TOP),
    *(Variant(f"cuda_topk_{k}", "cuda/cuda_topk.cu", _MG18, reads=1, writes=0, k=k,
              launch=_topk(k, threads=128),
              teaches=f"the {k} largest in the sweep that sums: nothing else is written")
      for k in TOP),
    Variant("frontier", "frontier/frontier.py", "-", reads=1, writes=1,
            teaches="a kernel for each range of widths, all at copy speed"),
    Variant("frontier_invariant", "frontier/frontier.py", "-", reads=1, writes=1,
            options=(("invariant", True),),
            teaches="what it costs that bits depend neither on rows nor on how a row is split"),
    Variant("liger", "peers/liger.py", "S5", reads=1, writes=1,
            max_cols=65_536, max_cols_reason="Liger raises beyond",
            teaches="what a library makes of one program per row"),
    Variant("quack", "peers/quack.py", "S5", reads=1, writes=1,
            teaches="a row read once by a cluster of blocks"),
    Variant("flashinfer", "peers/flashinfer.py", "-", reads=2, writes=1, dtypes=("float32",),
            teaches="the online form as a serving library has it"),
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
        if v.launch and v.launch.tiles and v.max_cols != v.launch.cols_held(v.launch.tiles[-1]):
            held = v.launch.cols_held(v.launch.tiles[-1])
            raise ValueError(
                f"{v.name} in kernels/registry.py needs max_cols={held}: its last tile"
            )
    return {v.name: v for v in variants}


BY_NAME = _index(VARIANTS)


def variant(name: str) -> Variant:
    """The variant called ``name``; a KeyError that lists the known names otherwise."""
    if name not in BY_NAME:
        raise KeyError(f"unknown variant '{name}'; known: {', '.join(BY_NAME)}")
    return BY_NAME[name]
