"""Top-k and sampling kernels, run by this machine's compiler: any memory, any split."""

import ctypes
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels import sampling_torch
from kernels.frontier import choice
from kernels.frontier import choice_plans as plans
from kernels.frontier.choice import Chance
from tests.kernels.choice_host import KINDS, Host, HostLaunch, as_gpu, compiled, placed

WIDTHS = (1, 31, 129, 1501)
LAYOUTS = ((0, 0), (1, 3), (5, 8), (2, 1))  # elements before a row and between two
ALL = ((None, 1.0), (1, 1.0), (40, 1.0), (128, 0.8), (None, 0.9), (None, 1e-9), (300, 1.0),
       (300, 0.7))  # fmt: skip
VECTORS = (  # of the Random123 distribution: counter, key, result
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
)  # fmt: skip


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ctypes.CDLL]:
    return compiled(tmp_path_factory.mktemp("choice"))


@pytest.fixture
def host(code: dict[str, ctypes.CDLL], monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    torch.manual_seed(0)
    made = Host(code)
    as_gpu(made, monkeypatch)
    monkeypatch.setattr(plans, "LEAST_SHARE", 400)
    monkeypatch.setattr(plans, "LEAST_TOP_SHARE", 400)
    yield made
    made.check()


def rows_of_every_kind(cols: int) -> Tensor:
    """What is hard to order, and in the last row what a temperature makes -inf."""
    x = 3 * torch.randn(10, cols)
    x[1] = torch.randint(-2, 3, (cols,))
    x[2] = 0.5
    x[3, torch.rand(cols) < 0.9] = -math.inf
    x[4] = -math.inf
    x[5, :: max(1, cols // 3)] = math.nan
    x[6] = torch.arange(cols) / 64
    x[7] = torch.where(torch.rand(cols) < 0.5, 0.0, -0.0)
    x[8, cols // 2 :: 5] = math.inf
    x[9] = torch.finfo(torch.bfloat16).min
    return x


def top(x: Tensor, k: int, whole: bool) -> tuple[Tensor, Tensor]:
    """In float64."""
    values, indices = torch.sort(x.double(), dim=-1, descending=True, stable=True)
    p = torch.softmax(x.double(), -1).gather(-1, indices)[:, :k]
    return (p if whole else torch.softmax(values[:, :k], -1)), indices[:, :k]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cols", WIDTHS)
def test_topk_is_exact_and_stable_in_any_memory(cols: int, kind: str, host: Host):
    dtype = getattr(torch, kind)
    given = rows_of_every_kind(cols)
    for n, (offset, gap) in enumerate(LAYOUTS):
        k, whole = min((1, 7, 128, 128)[n], cols), n % 2 == 0
        host.multiprocessors = 1 + 8 * (n // 2)
        x, around = placed(len(given), cols, dtype, offset, gap)
        x.copy_(given)
        host.watch(x, around)
        values = torch.full((len(x) + 2, k), 7.0, dtype=dtype)
        indices = torch.full((len(x) + 2, k), 7)
        choice.topk_softmax(x, k, whole, values[1:-1], indices[1:-1])
        p, places = top(x, k, whole)
        assert torch.equal(indices[1:-1], places), (offset, gap, k)
        near = 1e-5 if kind == "float32" else 8e-3
        torch.testing.assert_close(
            values[1:-1].double(), p, rtol=near, atol=1e-12, equal_nan=True, msg=f"{k} of {cols}"
        )
        falling = values[1:-1].diff() <= 0
        assert bool((falling | values[1:-1, 1:].isnan()).all())
        for memory in (values, indices):
            assert bool((memory[[0, -1]] == 7).all())


@pytest.mark.parametrize("k", [1, 2, 50, 128])
def test_a_bar_is_near_what_k_threads_have_seen(k: int, host: Host):
    tops = torch.randn(plans.THREADS)
    of_some = torch.where(torch.arange(plans.THREADS) < k, 7.0, -math.inf)
    for seen, more in ((tops, 2), (-tops.abs(), 2), (tops.round(), plans.THREADS), (of_some, 0)):
        bar = host.code["topk"].bar(ctypes.c_void_p(seen.data_ptr()), k)
        reach, least = int((seen >= bar).sum()), seen.sort(descending=True).values[k - 1]
        assert k <= reach <= k + more
        assert bar >= least - 0.01 * abs(least) or reach == k


def test_topk_of_rows_that_always_rise_or_fall(host: Host):
    x = torch.arange(12_001).float()
    x = torch.stack((x, x.flip(0), x // 1000))
    for multiprocessors, k in ((1, 100), (2, 20)):
        host.multiprocessors = multiprocessors
        values, indices = torch.empty(3, k), torch.empty(3, k, dtype=torch.int64)
        choice.topk_softmax(x, k, True, values, indices)
        assert torch.equal(indices, top(x, k, True)[1])


def sampled(x: Tensor, seed: int, top_k: int | None = None, top_p: float = 1.0) -> Tensor:
    out = torch.full((len(x) + 2,), -7)
    choice.sample(x, Chance(seed, 5, 1.25, top_k, top_p), out[1:-1])
    assert out[0] == out[-1] == -7
    return out[1:-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cols", WIDTHS)
def test_samples_are_torchs_in_any_memory_however_rows_are_split(cols: int, kind: str, host: Host):
    given = rows_of_every_kind(cols)
    for n, (top_k, top_p) in enumerate(ALL):
        top_k = min(top_k, cols) if top_k else None
        host.multiprocessors = 1 + 8 * (n % 2)
        x, around = placed(len(given), cols, getattr(torch, kind), *LAYOUTS[n // 2])
        x.copy_(given)
        host.watch(x, around)
        for seed in (n, 2**64 - 1 - n)[: 1 + (cols == 129)]:
            expected = sampling_torch.sample(x, 1.25, top_k, top_p, seed, 5)
            assert torch.equal(sampled(x, seed, top_k, top_p), expected), (top_k, top_p)
            assert expected[[4, 5, 8]].tolist() == [0, 0, cols // 2]
        host.check()


@pytest.mark.parametrize(("top_k", "top_p"), [(None, 1.0), (20, 0.9), (None, 0.9), (200, 0.9)])
def test_a_row_depends_neither_on_the_others_nor_on_the_split(
    top_k: int | None, top_p: float, host: Host, monkeypatch: pytest.MonkeyPatch
):
    x = torch.randn(5, 1501)
    expected = sampled(x, 3, top_k, top_p)
    host.multiprocessors = 50
    assert torch.equal(sampled(x[:3], 3, top_k, top_p), expected[:3])
    monkeypatch.setattr(plans, "GROUP_BYTES", 2 * 1501 * 4)  # two rows at once
    assert torch.equal(sampled(x, 3, top_k, top_p), expected)


def test_ties_at_a_threshold_are_kept_by_column(host: Host):
    x = torch.zeros(40, 500)
    x[:, :100] = -1.0
    for top_k, top_p, last in ((7, 1.0, 106), (150, 1.0, 249), (None, 0.25, None)):
        stay = sampling_torch.kept(x[:1], 1.25, top_k, top_p)[0].nonzero()[:, 0]
        ids = sampled(x, 1, top_k, top_p)
        assert torch.equal(ids, sampling_torch.sample(x, 1.25, top_k, top_p, 1, 5))
        assert set(ids.tolist()) <= set(stay.tolist())
        assert int(stay[0]) == 100
        assert last is None or int(stay[-1]) == last


def test_the_smallest_difference_is_one(host: Host):
    x = torch.zeros(12, 300)
    x[:, ::2] = -1e-45
    x[6:] = -x[6:]
    for top_p in (0.25, 0.6):
        expected = sampling_torch.sample(x, 1.25, None, top_p, 3, 5)
        assert torch.equal(sampled(x, 3, None, top_p), expected)


def test_more_parts_than_lanes(host: Host, monkeypatch: pytest.MonkeyPatch):
    """Whoever counts is in the 35th part and behind: of one lane's second part, more than one."""
    monkeypatch.setattr(plans, "LEAST_SHARE", 31)
    cols, host.multiprocessors = 37 * 32, 10
    x = torch.full((1, cols), -math.inf)
    assert choice._Part(x, 0, 1, cols, cols, None, True).racing == 39  # of a line, wherever x is
    first, second, third = 34 * 32 + 3, 34 * 32 + 9, 35 * 32
    for column, weight in ((first, 0.25), (second, 0.4), (third, 0.35)):
        x[0, column] = math.log(weight) / 1.25

    def in_that_order(seed: int) -> bool:
        words = sampling_torch.words(1, cols, seed, 5, torch.device("cpu"))
        scores = (1.25 * x + sampling_torch.gumbel(words))[0]
        return bool(scores[first] > scores[second] > scores[third])

    seed = next(filter(in_that_order, range(100)))
    assert sampling_torch.sample(x, 1.25, None, 0.5, seed, 5).tolist() == [second]
    assert sampled(x, seed, None, 0.5).tolist() == [second]


def test_few_rows_take_one_turn_and_no_room_is_left_beside_a_race(
    host: Host, monkeypatch: pytest.MonkeyPatch
):
    launches: list[HostLaunch] = []

    class Seen(HostLaunch):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            launches.append(self)

    monkeypatch.setattr(choice, "Prepared", Seen)
    capped = plans.shared_bytes(plans.BLOCKS, choice._shared_bytes(0))
    assert capped > 0
    x = torch.randn(8, 1000)
    for top_p, wanted in ((1.0, [capped, 0]), (0.9, [capped, 0]), (0.1, [capped, 0] * 2)):
        launches.clear()
        sampled(x, 1, None, top_p)
        assert [each.shared for each in launches] == wanted, top_p


def test_no_more_rows_are_left_than_are_expected():
    """Where all four are known, of logits of any spread."""
    rows, cols, top_p = 20_000, 40, 0.4
    x = torch.randn(rows, cols) * torch.logspace(-1, 1, rows)[:, None]
    noise = sampling_torch.gumbel(sampling_torch.words(rows, cols, 3, 5, torch.device("cpu")))
    first = (1.25 * x + noise).topk(plans.FIRST).indices
    stay = sampling_torch.kept(x, 1.25, None, top_p).gather(1, first).any(1)
    most = plans.nucleus_left(rows, 1, 10**9, top_p)
    assert most == pytest.approx(rows * 0.6**4)
    assert 0 < int((~stay).sum()) < most + 5 * math.sqrt(most)


@pytest.mark.parametrize(("cols", "rows"), [(32_000, 133), (128_256, 67), (262_144, 45)])
def test_a_second_turn_begins_where_the_page_says(cols: int, rows: int):
    def left(rows: int) -> float:
        parts = plans.parts_of(rows, plans.most_parts(cols), 132)
        return plans.nucleus_left(rows, cols, parts, 0.9)

    assert left(rows - 1) <= plans.MOST_LEFT < left(rows)
    page = (Path(__file__).parents[2] / "docs" / "operators.md").read_text()
    assert f"{rows} of {cols:,}" in page.replace(" rows of", " of")


def test_long_parts_are_split_further(host: Host):
    x = torch.empty(0)
    for cols, parts in ((2**19, 1), (2**19 + 1, 2), (2**21, 4)):
        part = choice._Part(x, 0, 10_000, cols, cols, None, True)
        assert (part.racing, part.judged) == (parts, parts)


def test_all_but_one_of_equals_may_be_kept(host: Host):
    x = torch.full((60, 6), -math.inf)
    x[:, [1, 2, 4, 5]] = 3.0
    for top_p, stay in ((0.75, {1, 2, 4}), (0.7500001, {1, 2, 4, 5}), (0.25, {1})):
        ids = sampled(x, 2, None, top_p)
        assert torch.equal(ids, sampling_torch.sample(x, 1.25, None, top_p, 2, 5))
        assert set(ids.tolist()) == stay


def test_a_small_logit_wins_by_its_noise(host: Host):
    # Column 0 is second by a little, and is seen first.
    rows, cols = 60, 1501
    noise = sampling_torch.gumbel(sampling_torch.words(rows, cols, 8, 5, torch.device("cpu")))
    most = noise[:, 4:].max(-1)
    winner = most.indices + 4
    x = torch.full((rows, cols), -20.0)
    x[:, 0] = (most.values - noise[:, 0] - 0.01) / 1.25
    x[torch.arange(rows), winner] = 0.0
    assert int((most.values > 9).sum()) > 3
    assert torch.equal(sampled(x, 8), winner)


@pytest.mark.parametrize("fixed", [40, 39, 31])
def test_a_sum_is_of_weights_rounded_down(fixed: int, code: dict[str, ctypes.CDLL]):
    """Those of 2^(51 - fixed) elements at most, in any order; half are 1, the largest."""
    powers = torch.exp2(torch.empty(2**10).uniform_(-44, 0))
    powers[::2] = 1.0
    told = (ctypes.c_float * 1024)(*powers.tolist())
    times = 2 ** (51 - fixed) // 1024
    weights = (powers.double() * 2.0**fixed).floor().long()
    for limit in (0.25, 1.0, -1.0):
        found = code["nucleus"].summed(told, times, ctypes.c_float(limit), fixed)
        assert found == times * int(weights[powers > limit].sum())


def test_numbers_are_philoxs(code: dict[str, ctypes.CDLL]):
    for counter, key, expected in VECTORS:
        words = (ctypes.c_uint * 4)(*counter)
        code["sampling"]["numbers"](words, ctypes.c_uint(key[0]), ctypes.c_uint(key[1]))
        assert tuple(words) == expected
        made = sampling_torch.philox([torch.tensor(c) for c in counter], key[1] << 32 | key[0])
        assert tuple(map(int, made)) == expected


def test_noise_and_weights_have_torchs_bits(code: dict[str, ctypes.CDLL]):
    torch.manual_seed(0)
    bits = [0, 1, 2, 2**30 - 1, 2**30, 2**31, 2**32 - 2, 2**32 - 1]
    word = torch.cat((torch.tensor(bits), torch.randint(2**32, (5000,))))
    noise = sampling_torch.gumbel(word)
    kernel = code["sampling"]
    made = torch.tensor([kernel.noise(ctypes.c_uint(w)) for w in word.tolist()])
    assert torch.equal(made, noise)
    bound = torch.tensor([kernel.noise_bound(ctypes.c_uint(w)) for w in word.tolist()])
    assert bool((bound > noise).all())
    u = (word.double() + 0.5) / 2**32
    torch.testing.assert_close(noise.double(), -(-(-u).log1p()).log(), rtol=1e-6, atol=1e-6)
    assert float(noise.max()) < kernel.most()

    x = torch.cat((torch.zeros(1), -40 * torch.rand(5000), torch.tensor([-math.inf])))
    for fixed in (40, 31):
        weight = sampling_torch.weights(x[None], 1.0, fixed)[0]
        made = [kernel.weight(ctypes.c_float(v), fixed) for v in x.tolist()]
        assert weight.tolist() == made
        exact = x.double().exp() * 2**fixed
        # The product with log2 e is rounded once, to a 2^-24th.
        assert bool(
            ((weight - exact).abs() <= 1 + (3e-7 + 1e-7 * x.abs().clamp(max=40)) * exact).all()
        )


@pytest.mark.parametrize("kind", plans.UNUSED)
def test_passes_see_every_bit_once(kind: str):
    for cols in (1, 2, 1000, 2**17, 2**17 + 1, 2**31 - 1):
        passes = plans.passes_of(kind, cols, weighted=True)
        bits = [p.shift + i for p in passes for i in range(p.bits)]
        wanted = {*range(32 + plans.UNUSED[kind], 64), *range(plans.column_bits(cols))}
        assert len(bits) == len(set(bits))
        assert set(bits) == wanted
        assert [p.first for p in passes] == [True] + [False] * (len(passes) - 1)
        assert all(0 < p.bits <= plans.DIGIT and p.told() for p in passes)
        assert cols * 2 ** plans.weight_bits(cols) < 2**63


@pytest.mark.parametrize(
    ("top_p", "rows", "multiprocessors", "parts"),
    [
        (0.9, 120, 120, (2, 2)),
        (0.9, 120, 60, (2, 1)),
        (0.3, 30, 30, (2, 2)),
        (0.3, 30, 100, (11, 10)),
        (0.05, 8, 8, (2, 2)),
        (0.05, 8, 5, (2, 1)),
    ],
)
def test_rows_that_many_races_settle_are_torchs(
    top_p: float, rows: int, multiprocessors: int, parts: tuple[int, int], host: Host,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    """The first of some rows are out: all blocks take another turn, then one is alone.

    A race and its judge have ``parts``, and rows that are left up to eleven.
    """
    if parts != (2, 2):
        monkeypatch.setattr(plans, "LEAST_SHARE", 48)
    x, host.multiprocessors = 0.3 * torch.randn(rows, 501), multiprocessors
    part = choice._Part(x, 0, rows, 501, 501, None, True)
    assert (part.racing, part.judged) == parts
    expected = sampling_torch.sample(x, 1.25, None, top_p, 11, 5)
    noise = sampling_torch.gumbel(sampling_torch.words(rows, 501, 11, 5, torch.device("cpu")))
    judged = 2 if top_p > 0.5 else plans.FIRST
    first = (1.25 * x + noise).topk(judged).indices
    assert bool((first != expected[:, None]).all(1).any())
    for most_left in (0, x.numel()):  # two turns, one
        monkeypatch.setattr(plans, "MOST_LEFT", most_left)
        assert torch.equal(sampled(x, 11, None, top_p), expected)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("columns", [(0, 1, 2, 8), (0, 1, 2, 190), (0, 1, 2, 2200)])
def test_the_first_ones_may_be_one_lanes_or_one_warps(
    columns: tuple[int, ...], parts: int, host: Host, monkeypatch: pytest.MonkeyPatch
):
    """Whoever is behind a warp's first two is ahead of all others, also of other parts."""
    rows, cols, host.multiprocessors = 200, 2300, 50 * parts
    noise = sampling_torch.gumbel(sampling_torch.words(rows, cols, 3, 5, torch.device("cpu")))
    x = torch.full((rows, cols), -math.inf)
    for column, score in zip(columns, (5.0, 4.9, 4.0, 3.0), strict=True):
        x[:, column] = (score - noise[:, column]) / 1.25
    expected = sampling_torch.sample(x, 1.25, None, 0.5, 3, 5)
    part = choice._Part(x, 0, rows, cols, cols, None, True)
    assert part.racing == parts
    last_kept = sampling_torch.kept(x, 1.25, None, 0.5)[:, columns[3]]
    assert int((expected == columns[1]).sum()) > 3
    assert int(((expected == columns[2]) & last_kept).sum()) > 0
    for most_left in (0, x.numel()):  # two turns, one
        monkeypatch.setattr(plans, "MOST_LEFT", most_left)
        assert torch.equal(sampled(x, 3, None, 0.5), expected)
