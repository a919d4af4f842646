"""Attention in one kernel of Triton's: interpreted against float64, and what it compiles to."""

import json
import math
import re
from collections.abc import Callable
from functools import cache
from itertools import cycle, product
from typing import Any

import pytest
import torch

from kernels.triton import triton_attention
from kernels.triton.triton_attention import (
    DIMS,
    FEW,
    HOPPER,
    MANY,
    NEAR,
    SOME,
    Tile,
    rule,
    strides,
    tile_for,
    vectors,
)
from tests.commands import module
from tests.kernels.attention_cases import (
    Case,
    Shape,
    assert_attention,
    exact,
    far_from_0,
    layouts,
    place,
    random,
)

interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="tests/gpu has the same")

KINDS = (torch.float16, torch.bfloat16)
SPILLS = 128  # bytes a thread, to load queries and store the output element by element
SMALL = 99 * 1024  # bytes of shared memory that programs of some GPUs may take
SHAPES = [
    Shape(1, 1, 1, 1, 1, 64),
    Shape(2, 2, 1, 17, 100, 128),
    Shape(1, 2, 2, 64, 64, 64),
    Shape(1, 1, 1, 100, 17, 64),
    Shape(1, 3, 1, 200, 200, 128),
    Shape(1, 4, 2, 129, 65, 64),
    Shape(1, 1, 1, 1, 200, 64),
    Shape(1, 1, 1, 257, 320, 64),
]


def run(case: Case, is_causal: bool, scale: float | None = None) -> Case:
    """Attention by the kernel, into the case's output."""
    scale = 1 / math.sqrt(case.query.shape[3]) if scale is None else scale
    case.out.fill_(math.nan)
    triton_attention.attention(*case[:4], is_causal, scale)
    return case


def of(*tensors: torch.Tensor) -> Case:
    """Queries, keys and values with room for the output."""
    query, key, value = tensors
    return Case(query, key, value, *place(query, (0, 1, 2), 0, 0, 7.0))


@interpreted
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("shape", "dtype"), [*zip(SHAPES, cycle(KINDS), strict=False)], ids=str)
def test_attention_is_right_in_any_memory_and_nothing_else_is_written(
    shape: Shape, dtype: torch.dtype, is_causal: bool
):
    for case in layouts(shape, dtype):
        assert_attention(run(case, is_causal), is_causal)


COPIED = [Tile(64, 128, 4, 2, True), Tile(64, 64, 4, 3, True), Tile(128, 128, 8, 3, True)]


@pytest.fixture
def takes(monkeypatch: pytest.MonkeyPatch) -> Callable[[Tile], None]:
    """Makes a tile the rule's."""

    def take(tile: Tile) -> None:
        monkeypatch.setattr(triton_attention, "rule", lambda *_: tile)

    return take


@interpreted
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("tile", COPIED, ids=str)
def test_what_the_copy_engine_brings_is_right_in_any_memory(
    tile: Tile, is_causal: bool, takes: Callable[[Tile], None]
):
    takes(tile)
    for shape, dtype in zip(SHAPES[1::3], cycle(KINDS), strict=False):
        for case in layouts(shape, dtype):
            assert_attention(run(case, is_causal), is_causal)


@interpreted
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("most", [8.0, 512.0, 16_384.0])
@pytest.mark.parametrize("tile", [FEW, FEW._replace(copied=True)], ids=str)
def test_large_scores_lose_nothing(
    tile: Tile, most: float, dtype: torch.dtype, takes: Callable[[Tile], None]
):
    """They are exact in float32 here, so that only what follows them can be wrong."""
    takes(tile)
    shape = Shape(1, 1, 1, 70, 150, 64)
    _, _, value = random(shape, dtype)
    many = torch.Generator().manual_seed(1)
    query, key = (
        (torch.randint(-1, 2, (1, 1, rows, 64), generator=many) * most).to(dtype)
        for rows in (shape.queries, shape.keys)
    )
    key[0, 0, 100:103] = key[0, 0, 5]  # of the largest there are several, blocks apart
    for scale in (1.0, 2.0**-20):
        for is_causal in (False, True):
            case = run(of(query, key, value), is_causal, scale)
            assert_attention(case, is_causal, scale)


@interpreted
@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("most", [64, 150])
def test_scores_far_from_0_are_subtracted_first(
    most: int, sign: float, takes: Callable[[Tile], None]
):
    """In one query's first block, or in all of them.

    A factor of 2^16 and more would be on its weights else, which float16 does not hold, and scores
    that differ would be one once they are scaled; at the least scale they would be some per cent
    off.
    """
    takes(FEW._replace(copied=True))
    tensors = far_from_0(Shape(1, 1, 1, 70, 150, 64), sign, most)
    for scale in (2e-4, 0.9, 1.0, 1.3, 1.7, 2.3):
        assert float(NEAR.value) < 9e8 * scale
        assert_attention(run(of(*tensors), False, scale), False, scale)


@interpreted
def test_a_scale_is_taken_and_a_head_has_its_own_keys():
    shape = Shape(1, 4, 2, 33, 70, 64)
    query, key, value = random(shape, torch.float16)
    value[:, 1] += 30
    for scale in (0.01, 1.5):
        case = run(of(query, key, value), False, scale)
        assert bool((case.out[:, :2] < 20).all() and (case.out[:, 2:] > 20).all())
        assert_attention(case, False, scale)


@interpreted
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, of what is meant
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("tile", [FEW, *COPIED], ids=str)
def test_infinite_scores_and_nan_are_as_in_torch(
    tile: Tile, is_causal: bool, takes: Callable[[Tile], None]
):
    takes(tile)
    query, key, value = random(Shape(1, 1, 1, 140, 140, 64), torch.float16)
    query = query.abs() + 0.5
    hidden, first, no_number, infinite = (key.clone() for _ in range(4))
    hidden[0, 0, 1:70:2, 3] = -math.inf  # some scores of two blocks
    first[0, 0, :64, 3] = -math.inf  # all scores of the first block, and more in causal rows
    no_number[0, 0, 100, 0] = math.nan
    infinite[0, 0, 100, 0] = math.inf
    for given in (hidden, first, no_number, infinite, torch.full_like(key, -math.inf)):
        case = run(of(query, given, value), is_causal)
        expected, _ = exact(query, given, value, is_causal)
        assert torch.equal(case.out.isnan(), expected.isnan())
        torch.testing.assert_close(
            case.out.double(), expected, rtol=4e-3, atol=4e-3, equal_nan=True
        )
    value[0, 0, 130] = math.inf  # where its weight is 0, it is NaN, but for keys never looked at
    case = run(of(query, key, value), is_causal)
    if is_causal:
        assert bool(case.out[0, 0, :128].isfinite().all())
    assert not bool(case.out[0, 0, 131:].isfinite().any())


@interpreted
def test_every_tile_is_right(takes: Callable[[Tile], None]):
    """Other lengths of blocks than 64 queries and 64 keys: whole blocks end elsewhere."""
    tiles = (Tile(64, 64, 4, 2), Tile(32, 64, 4, 1), Tile(128, 128, 8, 2), Tile(128, 16, 4, 2))
    for tile in (*tiles, *COPIED):
        takes(tile)
        for shape in (Shape(1, 1, 1, 140, 150, 64), Shape(1, 1, 1, 150, 70, 64)):
            assert_attention(run(of(*random(shape, torch.float16)), True), True)


@interpreted
def test_keys_that_batches_or_heads_share_are_described_once(takes: Callable[[Tile], None]):
    takes(COPIED[1])
    query, key, value = random(Shape(3, 4, 2, 70, 90, 64), torch.bfloat16)
    for batches, heads in ((1, 2), (3, 1), (1, 1)):
        keys, values = (x[:batches, :heads].expand(3, 2, 90, 64) for x in (key, value))
        assert tile_for(query, keys, values, HOPPER).copied
        assert_attention(run(of(query, keys, values), False), False)
        assert_attention(run(of(*(x[:batches] for x in (query, keys, values))), True), True)


@interpreted
def test_what_the_copy_engine_cannot_bring_is_loaded(takes: Callable[[Tile], None]):
    takes(COPIED[1])
    query, key, value = random(Shape(1, 2, 2, 70, 90, 64), torch.float16)
    one = value[:, :, :1].expand(-1, -1, 90, -1)  # the same row for all keys
    apart = torch.zeros(1, 2, 90, 67, dtype=torch.float16)[..., :64].copy_(value)
    off = torch.zeros(value.numel() + 1, dtype=torch.float16)[1:].view(value.shape).copy_(value)
    for other in (one, apart, off):
        for given in ((key, other), (other, key)):
            assert not tile_for(query, *given, HOPPER).copied
            assert_attention(run(of(query, *given), False), False)


def test_the_tile_fits_the_shared_memory_of_the_gpu():
    for dim in DIMS:
        for queries, keys in product((1, 64, 65, 4096), (1, SOME - 1, SOME, MANY - 1, MANY, 10**6)):
            for shared in (SMALL, 163 * 1024, HOPPER):
                tile = rule(queries, keys, dim, shared)
                assert tile.shared(dim) + 1024 <= shared
                assert tile.copied == (shared == HOPPER and keys >= SOME)
                if queries <= 64 or shared < HOPPER:
                    assert tile.queries == (64 if queries <= 64 else 128)
    assert [rule(4096, 4096, 128, shared).stages for shared in (SMALL, HOPPER)] == [2, 3]
    assert [FEW.programs(q) for q in (1, 64, 65, 128, 129)] == [1, 1, 2, 2, 3]


def test_what_moves_as_vectors_is_known():
    x = torch.zeros(2, 3, 5, 64, dtype=torch.float16)
    assert strides(x) == (960, 320, 64)
    assert strides(x[:1, :, :1]) == (0, 320, 0)
    assert [vectors(t) for t in (x, x.transpose(1, 2), x[:, 1:], x[:1].expand(4, 3, 5, 64))] == [
        True, True, True, True,
    ]  # fmt: skip
    odd = torch.zeros(2, 3, 5, 67, dtype=torch.float16)
    assert [vectors(t) for t in (odd[..., :64], x.flatten()[1:65].view(1, 1, 1, 64))] == [
        False, False,
    ]  # fmt: skip


@cache
def code() -> dict[str, dict[str, Any]]:
    done = module("tests.kernels.attention_code")
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout.splitlines()[-1])


def copied(name: str) -> bool:
    return "COPIED=1" in name


def test_products_go_to_the_tensor_cores_of_each_architecture():
    product_of = {"sm_80": "mma.sync", "sm_90": "wgmma.mma_async", "sm_100": "tcgen05.mma"}
    for name, found in code().items():
        arch = name.split()[0]
        # Of whole blocks and of those at the diagonal or the end, queries with keys and weights
        # with values.
        assert found[product_of[arch]] >= 4, name
        assert not any(other in found for a, other in product_of.items() if a != arch), name
    assert {name.split()[0] for name in code()} == set(product_of)


def test_no_loop_spills_and_each_form_has_the_shared_memory_that_the_rule_counts():
    for name, found in code().items():
        assert found["spill_bytes"] <= (SPILLS if "odd" in name else 0), (name, found)
        queries, keys, warps, stages = (
            int(re.search(rf"{word}=(\d+)", name)[1])  # pyright: ignore[reportOptionalSubscript]
            for word in ("QUERIES", "KEYS", "warps", "stages")
        )
        tile = Tile(queries, keys, warps, stages)
        assert found["shared"] <= tile.shared(found["dim"]) + 1024 <= found["limit"], (name, found)


def test_keys_and_values_are_copied_ahead_and_a_score_takes_one_exponential():
    for name, found in code().items():
        if name.startswith("sm_100"):
            continue  # its loops are partly unrolled
        queries, keys, warps = (
            int(re.search(rf"{word}=(\d+)", name)[1])  # pyright: ignore[reportOptionalSubscript]
            for word in ("QUERIES", "KEYS", "warps")
        )
        scores = queries * keys // (32 * warps)  # of a thread
        loops = 4 if copied(name) else 2  # near 0, and far from it
        factors = found["ex2"] - loops * scores
        # Beside them a factor a row, in every thread that has a part of it.
        assert 0 < factors <= loops * queries // warps, (name, found)
        if copied(name):  # the factor of a score and the maximum in one instruction
            assert found["fma.rn"] >= 2 * scores, (name, found)
        assert found["cp.async.bulk" if copied(name) else "cp.async"] > 0, name
        assert ("cp.async" in found) != copied(name), name
        if "odd" not in name:
            assert found["ld.global"] == queries * found["dim"] // (8 * 32 * warps), name
            assert found["st.global"] == found["ld.global"], name


def test_programs_share_a_multiprocessor_of_hopper_but_those_of_128_queries():
    """As docs/attention.md says; registers are handed out in steps of 8 a thread."""
    fit = set()
    for name, found in code().items():
        if name.startswith("sm_90") and copied(name) and "even" in name:
            threads = 32 * int(name.rsplit("=", 1)[1])
            by_registers = 65_536 // (threads * -(-found["registers"] // 8) * 8)
            by_memory = (found["limit"] + 1024) // (found["shared"] + 1024)
            queries = 128 if "QUERIES=128" in name else 64
            fit.add((found["dim"], queries, min(by_registers, by_memory)))
    assert fit == {(64, 64, 3), (128, 64, 2), (128, 128, 1)}
