"""The sweeps ask what they promise to ask."""

import pytest

from experiments.sweeps import MODES, SWEEPS, sweep
from experiments.sweeps.sweep import Fill, Point, Sweep, powers
from experiments.tidy import baseline
from kernels.registry import BY_NAME, ELEMENT_BYTES

GPU = [name for name in SWEEPS if name != "smoke"]
ALL_DTYPES = {"float32", "float16", "bfloat16"}


def axes(name: str, mode: str = "full") -> tuple[set[str], list[int], list[int]]:
    dtypes, rows, cols = zip(*sweep(name).points(mode), strict=True)
    return set(dtypes), sorted(set(rows)), sorted(set(cols))


def test_batch_scaling():
    dtypes, rows, cols = axes("batch_scaling")
    assert dtypes == {"float16", "float32"}
    assert rows == [2**k for k in range(17)]
    assert cols == [1024, 8192, 32_000]
    assert len(list(sweep("batch_scaling").points("full"))) == 2 * 17 * 3


def test_vocab_scaling():
    dtypes, _, cols = axes("vocab_scaling")
    named = {1000, 32_000, 50_257, 128_256, 151_936, 201_088}
    assert dtypes == ALL_DTYPES
    assert cols == sorted({2**k for k in range(6, 21)} | named)
    for point in sweep("vocab_scaling").points("full"):
        elements = {4: 2**27, 2: 2**28}[ELEMENT_BYTES[point.dtype]]
        assert elements - point.cols < point.rows * point.cols <= elements


def test_small_batch():
    dtypes, rows, cols = axes("small_batch")
    assert dtypes == {"bfloat16"}
    assert rows == [2**k for k in range(9)]
    assert min(cols) >= 30_000
    assert set(sweep("small_batch").timers) == {"graph", "call"}


def test_tutorial_cols_has_the_publications_axes():
    dtypes, rows, cols = axes("tutorial_cols")
    assert (dtypes, rows) == ({"float32"}, [4096])
    assert cols == [128 * i for i in range(2, 100)]
    assert (min(cols), max(cols)) == (256, 12_672)  # the first and last row that S2 prints


def test_course_shapes_are_the_courses():
    shapes = {(p.rows, p.cols) for p in sweep("course_shapes").points("full")}
    timed = {(256, 1024), (1024, 1024), (4096, 1024)}
    assert shapes == timed | {(16, 8192), (8192, 128), (2048, 2048)}


def test_cuda_ladder_shows_the_crossing():
    _, _, cols = axes("cuda_ladder")
    assert max(cols) >= 16_384
    assert 14_080 in cols
    below, above = (sorted(cols, key=lambda c: (abs(c - 14_080), c))[i] for i in (1, 2))
    assert abs(below - 14_080) < 1024 > abs(above - 14_080)


def test_worklog_has_the_publications_axes():
    dtypes, rows, cols = axes("worklog")
    assert (dtypes, rows) == ({"float32"}, [2048])
    assert cols == [2**k for k in range(10, 19)]


def test_topk_goes_as_far_as_the_publication():
    dtypes, rows, cols = axes("topk")
    assert (dtypes, rows) == ({"float32"}, [4000])
    assert (min(cols), max(cols)) == (1000, 100_000)
    ks = [k for name in sweep("topk").variants if (k := BY_NAME[name].k)]
    assert sorted(ks) == sorted([1, 2, 4, 8, 16, 32] * 2)


def test_smoke_needs_no_gpu():
    assert sweep("smoke").timers == ("host",)
    assert max(p.rows * p.cols for p in sweep("smoke").points("smoke")) < 10_000


@pytest.mark.parametrize("name", GPU)
def test_quick_is_part_of_full(name: str):
    quick, full = (set(sweep(name).points(mode)) for mode in ("quick", "full"))
    assert quick < full or (quick == full and len(full) < 10)


@pytest.mark.parametrize("name", SWEEPS)
def test_every_sweep_times_the_ceilings_the_baselines_and_one_again(name: str):
    entries, ceilings = sweep(name).entries(), {v.name for v in BY_NAME.values() if v.ceiling}
    assert ceilings <= set(entries)
    baselines = {baseline(variant) for variant in set(entries) - ceilings}
    assert baselines <= set(entries)
    assert sweep(name).again in baselines
    assert len(set(entries)) == len(entries)


@pytest.mark.parametrize("name", SWEEPS)
def test_no_point_twice(name: str):
    points = list(sweep(name).points("full"))
    assert len(set(points)) == len(points)


def test_blocks_in_each_mode():
    assert MODES == {"smoke": 2, "quick": 2, "full": 5}


def test_an_unknown_sweep_lists_the_known_ones():
    with pytest.raises(KeyError) as raised:
        sweep("vocab")
    assert [name for name in SWEEPS if name not in str(raised.value)] == []


def test_an_unknown_variant_or_dtype_is_refused_where_it_is_written():
    with pytest.raises(KeyError, match="unknown variant 'softmx'"):
        Sweep(rows=(1,), cols=(1,), dtypes=("float32",), variants=("softmx",))
    with pytest.raises(ValueError, match=r"unknown dtype \['float8'\]; known: float32, float16"):
        Sweep(rows=(1,), cols=(1,), dtypes=("float8",), variants=("torch_eager",))


def test_powers_and_fill():
    assert powers(2, 0, 3) == (1, 2, 4, 8)
    wide = Sweep(rows=Fill(1024), cols=(64, 512), dtypes=("float32",), variants=("torch_eager",))
    assert list(wide.points("full")) == [Point("float32", 4, 64), Point("float32", 1, 512)]
