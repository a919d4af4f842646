"""The registry refuses doubles, and says what it knows and why it refuses a point."""

import re
import subprocess
import sys

import pytest

from kernels import registry
from kernels.registry import ROOT, VARIANTS, Launch, Variant, variant


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(KeyError) as raised:
        variant("softmx")
    message = str(raised.value)
    assert "'softmx'" in message
    assert [v.name for v in VARIANTS if v.name not in message] == []


def test_a_double_is_refused_by_name():
    with pytest.raises(ValueError, match=r"registered twice .*: triton_row$"):
        registry._index((*VARIANTS, variant("triton_row")))


def test_a_line_without_its_file_or_its_launch_is_refused_by_name():
    lost = Variant("lost", "triton/lost.py", "-", 1, 1, "nothing")
    with pytest.raises(ValueError, match=r"^lost in .* names a missing file: .*triton/lost\.py$"):
        registry._index((lost,))
    still = Variant("still", "cuda/cuda_float4.cu", "-", 1, 1, "nothing")
    with pytest.raises(ValueError, match=r"^still in .* needs launch="):
        registry._index((still,))


def test_the_registry_needs_neither_torch_nor_triton():
    code = "import sys, kernels.registry; print(sorted({'torch', 'triton'} & set(sys.modules)))"
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT.parent, capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "dtype", "cols", "device", "reason"),
    [
        ("triton_row", "float32", 131_072, "cuda", None),
        ("triton_row", "float32", 131_073, "cuda", "at most 131072 columns: a program would"),
        ("cuda_float4", "float16", 64, "cuda", "takes float32 only"),
        ("cuda_float4", "float32", 64, "cpu", "needs a CUDA GPU"),
        ("torch_eager", "bfloat16", 1, "cpu", None),
        ("torch_topk_8", "float16", 8, "cpu", None),
        ("torch_topk_8", "float16", 7, "cpu", "at least 8 columns: it gives the 8 largest"),
        ("cuda_topk_32", "float32", 31, "cuda", "at least 32 columns"),
    ],
)
def test_a_refusal_says_why(name: str, dtype: str, cols: int, device: str, reason: str | None):
    refusal = variant(name).refusal(dtype, cols, device)
    assert refusal is None if reason is None else reason in str(refusal)


def test_passes_count_both_ways_and_change_beyond_the_row_held():
    hybrid = variant("triton_hybrid")
    assert (hybrid.passes(16_384), hybrid.passes(16_385)) == (2, 4)
    assert variant("torch_naive").passes(1) == 8


def test_the_first_limit_that_holds_the_row_sets_the_block():
    launch = Launch(threads=((100, 32), (200, 64)), shared_bytes_per_thread=4)
    assert [launch.block(cols) for cols in (1, 100, 101, 200, 201, 10**6)] == [
        (32, 128), (32, 128), (64, 256), (64, 256), (64, 256), (64, 256),
    ]  # fmt: skip


TILES = Launch(tiles=((128, 1), (128, 4), (1024, 4)), rows=4)


@pytest.mark.parametrize(
    ("cols", "tile"),
    [(1, (128, 1)), (128, (128, 1)), (129, (128, 4)), (512, (128, 4)), (513, (1024, 4))],
)
def test_the_first_tile_that_holds_the_row_is_launched(cols: int, tile: tuple[int, int]):
    # Four rows share a block: 32 threads of 4 floats a vector hold 128 columns.
    assert TILES.tile(cols) == tile
    assert TILES.block(cols) == (tile[0], 0)


def test_a_row_that_no_tile_holds_is_an_error():
    assert TILES.cols_held(TILES.tiles[-1]) == 4096
    with pytest.raises(ValueError, match="4097 columns are more than any of the tiles"):
        TILES.tile(4097)


def test_blocks_that_share_a_row_hold_whole_vectors_of_it():
    launch = Launch(tiles=((32, 1), (32, 2)), splits=8)
    assert [launch.tile(cols) for cols in (1024, 1025)] == [(32, 1), (32, 2)]
    assert [launch.cols_held(tile) for tile in launch.tiles] == [1024, 2048]
    assert launch.kernels == ("partials", "finish")


def test_a_row_fills_its_tile_or_the_vectors_of_every_block():
    assert [TILES.filled(cols) for cols in (64, 128, 256, 512, 513, 4096)] == [0, 1, 0, 1, 0, 1]
    streamed = Launch(threads=((1, 256),), splits=8)
    assert [streamed.filled(cols) for cols in (4, 32, 36, 1024)] == [0, 1, 0, 1]


def test_the_kernels_split_a_row_as_often_as_the_registry_says():
    (splits,) = re.findall(r"SPLITS = (\d+);", (ROOT / "cuda" / "split.cuh").read_text())
    for v in VARIANTS:
        if v.launch and v.launch.splits > 1:
            assert v.launch.splits == int(splits), v.name


def test_max_cols_is_what_the_last_tile_holds():
    wrong = Variant("w", "cuda/cuda_block_row.cu", "-", 1, 1, "nothing", max_cols=9, launch=TILES)
    with pytest.raises(ValueError, match=r"^w in .* needs max_cols=4096: its last tile$"):
        registry._index((wrong,))


def test_the_largest_are_given_by_torch_and_by_cuda_for_the_same_k():
    found = {f: [v for v in VARIANTS if v.k and v.framework == f] for f in ("torch", "cuda")}
    for framework, variants in found.items():
        assert [v.k for v in variants] == [1, 2, 4, 8, 16, 32]
        assert [v.name for v in variants] == [f"{framework}_topk_{v.k}" for v in variants]
    for v in found["torch"]:
        assert v.options == (("k", v.k),)
    for v in found["cuda"]:
        assert v.launch is not None
        threads, _ = v.launch.block(1)
        assert v.launch.defines == (f"K={v.k}", f"THREADS={threads}")


def test_the_framework_is_the_folder():
    assert Variant("a", "cuda/a.cu", "-", 1, 1, "nothing").framework == "cuda"
