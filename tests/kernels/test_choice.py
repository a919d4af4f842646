"""kernels.topk_softmax and kernels.sample as they are called: by torch where there is no GPU."""

import math
import os
import re
from collections.abc import Callable
from shutil import which
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._inductor import config as inductor
from torch.library import opcheck
from torch.testing import assert_close

from kernels import occupancy, sample, sampling, sampling_torch, topk, topk_softmax
from kernels.cuda_compiler import C_TYPES, program, ptxas_facts
from kernels.frontier import choice_plans
from kernels.frontier.choice_plans import (
    BLOCKS,
    CANDIDATES,
    DRAW,
    FILES,
    HERE,
    HIGHEST,
    JUDGE,
    JUDGING,
    MOST_SHARE,
    NARROW,
    NARROWING,
    PLANS,
    SAMPLE,
    THREADS,
    WEIGHT_BITS,
    least_parts,
    most_parts,
    most_top_parts,
    parts_of,
    shared_bytes,
)
from tests.kernels.kept import kept, p_value

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(
    ("arch", "kinds"),
    [("sm_80", ["float32"]), ("sm_90", ["float32", "bfloat16"]), ("sm_100", ["float16"])],
)
def test_kernels_compile_and_spill_nothing(arch: str, kinds: list[str], file: str):
    types = [C_TYPES[kind] for kind in kinds]
    names = list(
        dict.fromkeys(p.expression(c) for p in PLANS if p.file.stem == file for c in types)
    )
    _, symbols, report = program(HERE / f"{file}.cu", arch, names)
    for name in names:
        facts = ptxas_facts(report, symbols[name])
        assert (facts["spill_bytes"], facts["local_bytes"]) == (0, 0), name
        assert facts["static_shared_bytes"] <= 48 * 1024


@pytest.mark.parametrize("kind", NARROWING)
def test_all_blocks_of_a_launch_are_there_at_once(kind: str):
    capped = (SAMPLE[False], *DRAW.values())
    wanted = dict.fromkeys((*CANDIDATES.values(), *capped), BLOCKS)
    wanted |= dict.fromkeys((SAMPLE[True], NARROW, HIGHEST), NARROWING[kind])
    wanted |= dict.fromkeys(JUDGE.values(), JUDGING)
    more = shared_bytes(BLOCKS, occupancy.MULTIPROCESSORS["sm_90"].shared_bytes)
    for file in FILES:
        mine = {p: n for p, n in wanted.items() if p.file.stem == file}
        names = {p: p.expression(C_TYPES[kind]) for p in mine}
        _, symbols, report = program(HERE / f"{file}.cu", "sm_90", list(names.values()))
        for p, name in names.items():
            facts = ptxas_facts(report, symbols[name])
            shared = facts["static_shared_bytes"] + (more if p in capped else 0)
            there = occupancy.blocks("sm_90", THREADS, facts["registers"], shared)
            assert there >= mine[p], p.label
            assert p not in capped or there == mine[p], p.label


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("candidates.cuh", "MOST_TOP"), ("pick.cuh", "DIGIT"), ("pick.cuh", "THREADS"),
        ("nucleus.cu", "FIRST"),
    ],
)  # fmt: skip
def test_plans_and_kernels_have_one_number(file: str, name: str):
    found = re.search(
        rf"^constexpr int .*\b{name} = (\d+)", (HERE / file).read_text(), re.MULTILINE
    )
    assert found
    assert int(found[1]) == getattr(choice_plans, name)


def test_a_standing_has_the_words_that_plans_count():
    text = (HERE / "nucleus.cu").read_text()
    fields = re.findall(r"\[?(\w*)\]?;", text.split("struct Standing {")[1].split("}")[0])
    assert len(fields) == 4
    words = sum(choice_plans.FIRST if field == "FIRST" else 1 for field in fields)
    assert words * choice_plans.WORD_BYTES == choice_plans.STANDING_BYTES


def test_few_rows_are_split_and_many_are_not():
    assert (most_parts(131_072), most_top_parts(131_072)) == (64, 32)
    assert most_parts(1) == most_top_parts(1) == 1
    assert parts_of(1, 64, 132) == 64
    assert parts_of(16, 64, 132) == 33
    assert parts_of(64, 64, 132) == 8
    assert parts_of(64, 64, 132, blocks=5) == 10
    assert parts_of(256, 64, 132) == 2
    assert parts_of(1000, 64, 132) == parts_of(1, 1, 132) == 1
    # Of those that a thread of a part sums, half as many as its sum holds.
    assert (least_parts(2**19), least_parts(2**19 + 1)) == (1, 2)
    assert MOST_SHARE // THREADS == 2 ** (51 - WEIGHT_BITS)


@pytest.mark.parametrize("dtype", DTYPES)
def test_topk_is_torchs(dtype: torch.dtype):
    torch.manual_seed(0)
    x = torch.randn(5, 300).to(dtype)
    for k in (1, 8, 128):
        values, indices = topk_softmax(x, k)
        assert (values.dtype, indices.dtype) == (dtype, torch.int64)
        assert_close(values, torch.softmax(x, -1).topk(k).values)
        assert_close(torch.softmax(x, -1).gather(-1, indices), values)
        values, indices = topk_softmax(x, k, normalize="topk")
        assert_close(values, torch.softmax(x.topk(k).values, -1))
    values, indices = topk_softmax(x.new_zeros(2, 9), 4)
    assert indices.tolist() == [[0, 1, 2, 3]] * 2
    assert topk_softmax(x[:0], 3)[0].shape == (0, 3)


@pytest.mark.parametrize("normalize", ["all", "topk"])
def test_topk_has_the_gradient_of_the_two_steps(normalize: Any):
    torch.manual_seed(0)
    x = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: topk_softmax(x, 3, normalize=normalize)[0], (x,))
    assert not topk_softmax(x, 3)[1].requires_grad
    # Where probabilities underflow, and in 16 bits.
    steep = (100 * x.detach()).half().requires_grad_()
    (grad,) = torch.autograd.grad(topk_softmax(steep, 3, normalize=normalize)[0].sum(), steep)
    assert grad.dtype == torch.float16
    assert bool(grad.isfinite().all())


BAD: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: topk_softmax(torch.zeros(2, 3), 4), ValueError, "from 1 to the 3 columns; got 4"),
    (lambda: topk_softmax(torch.zeros(2, 3), 0), ValueError, "from 1 to the 3 columns; got 0"),
    (lambda: topk_softmax(torch.zeros(2, 300), 129), ValueError, r"use torch\.topk\(torch\.softm"),
    (lambda: topk_softmax(torch.zeros(3), 1), ValueError, r"rows \(M, N\)"),
    (lambda: topk_softmax(torch.zeros(2, 3, dtype=torch.int32), 1), TypeError, r"x\.float\(\)"),
    (lambda: topk_softmax([[1.0]], 1), TypeError, "got list"),  # pyright: ignore[reportArgumentType]
    (lambda: topk_softmax(torch.zeros(2, 3), 1.0), TypeError, "int for k"),  # pyright: ignore[reportArgumentType]
    (lambda: topk_softmax(torch.zeros(2, 3), 1, normalize="row"), ValueError, "normalize"),  # pyright: ignore[reportArgumentType]
    (lambda: sample(torch.zeros(2, 3), temperature=0), ValueError, r"argmax"),
    (lambda: sample(torch.zeros(2, 3), temperature=math.nan), ValueError, "above 0"),
    (lambda: sample(torch.zeros(2, 3), temperature=1e-45), ValueError, "inverse"),
    (lambda: sample(torch.zeros(2, 3), temperature=math.inf), ValueError, "inverse"),
    (lambda: sample(torch.zeros(2, 3), top_k=4), ValueError, "from 1 to the 3 columns; got 4"),
    (lambda: sample(torch.zeros(2, 3), top_k=0), ValueError, "top_k"),
    (lambda: sample(torch.zeros(2, 3), top_p=0.0), ValueError, "top_p"),
    (lambda: sample(torch.zeros(2, 3), top_p=1.5), ValueError, "top_p"),
    (lambda: sample(torch.zeros(2, 0)), ValueError, "at least one logit"),
    (lambda: sample(torch.zeros(3)), ValueError, "rows"),
    (lambda: sample(torch.zeros(2, 3, dtype=torch.int64)), TypeError, r"logits\.float\(\)"),
    (lambda: sample(torch.zeros(2, 3), seed=2**64), ValueError, "64 bits for seed"),
    (lambda: sample(torch.zeros(2, 3), seed=1, generator=torch.Generator()), ValueError, "both"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "told"), BAD)
def test_an_error_says_what_is_wrong(call: Callable[[], object], error: type[Exception], told: str):
    with pytest.raises(error, match=told):
        call()


LEAST = 1e-4  # of the 28 p-values of a right sampler, one in 350 times the smallest is below

LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.5, 0.5, -1.0, -math.inf, 0.0, 1.5, -2.0, 0.25])


@pytest.mark.parametrize("seed", [0, 2**63])
@pytest.mark.parametrize(
    ("options", "stay"),
    [
        ({}, list(range(11))),
        ({"temperature": 0.5}, list(range(11))),
        ({"temperature": 3.0}, list(range(11))),
        ({"top_k": 4}, [0, 1, 2, 8]),  # of three equal ones the first
        ({"top_p": 0.5}, [0, 8]),
        ({"top_k": 5, "top_p": 0.95}, [0, 1, 2, 3, 8]),
        ({"top_k": 5, "top_p": 0.6, "temperature": 2.0}, [0, 1, 8]),
    ],
)
def test_samples_have_the_distribution(options: dict[str, Any], stay: list[int], seed: int):
    p = torch.softmax(LOGITS.double() / options.get("temperature", 1.0), -1)
    p = torch.zeros_like(p).index_copy(0, torch.tensor(stay), p[stay])
    p /= p.sum()
    # Of rows, and of offsets.
    ids = sample(LOGITS.expand(20_000, -1), seed=seed, **options)
    assert p_value(ids, p) > LEAST
    few = [sample(LOGITS.expand(200, -1), seed=seed, offset=i, **options) for i in range(10)]
    assert p_value(torch.cat(few), p) > LEAST


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0.7}, {"top_k": 200}, {"top_p": 0.9},
     {"top_k": 300, "top_p": 0.8, "temperature": 1.5}],
)  # fmt: skip
def test_samples_of_many_tokens_have_the_distribution(options: dict[str, Any]):
    generator = torch.Generator().manual_seed(1)
    logits = 2 * torch.randn(1500, generator=generator)
    rows = logits.expand(256, -1)
    ids = torch.cat([sample(rows, seed=99, offset=i, **options) for i in range(20)])
    assert p_value(ids, kept(logits, **options)) > LEAST


def test_neighbouring_rows_columns_and_offsets_are_independent():
    words = sampling_torch.words(400, 250, 7, 0, torch.device("cpu")).double() / 2**32 - 0.5
    other = sampling_torch.words(400, 250, 7, 1, torch.device("cpu")).double() / 2**32 - 0.5
    for a, b in ((words[1:], words[:-1]), (words[:, 1:], words[:, :-1]), (words, other)):
        assert abs(float((12 * a * b).mean())) < 4 / math.sqrt(a.numel())


@pytest.mark.parametrize(
    ("top_p", "count"),
    [(0.25, 1), (0.2500001, 2), (0.5, 2), (0.75, 3), (0.7500001, 4), (1.0, 4), (1e-30, 1)],
)
def test_top_p_keeps_the_fewest_that_reach_it_and_of_equals_the_first(top_p: float, count: int):
    x = torch.full((1, 6), -math.inf)
    x[0, [1, 2, 4, 5]] = 3.0
    kept = sampling_torch.kept(x, 1.0, None, top_p)[0]
    expected = [1, 2, 4, 5][:count] if top_p < 1 else range(6)
    assert kept.nonzero()[:, 0].tolist() == list(expected)
    ids = sample(x.expand(300, -1), seed=1, top_p=top_p)
    assert set(ids.tolist()) == set([1, 2, 4, 5][:count])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_another_default_dtype_changes_nothing(dtype: torch.dtype):
    logits = torch.randn(5, 300)
    asked = {"seed": 3, "top_p": 0.7, "temperature": 0.6}
    before, usual = sample(logits, **asked), torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        after = sample(logits, **asked)
    finally:
        torch.set_default_dtype(usual)
    assert torch.equal(after, before)


def test_a_sample_is_reproducible():
    torch.manual_seed(0)
    x = torch.randn(64, 100)
    first = sample(x, seed=11, offset=3)
    assert torch.equal(sample(x, seed=11, offset=3), first)
    assert torch.equal(sample(x[:5], seed=11, offset=3), first[:5])
    assert torch.equal(sample(x.t().contiguous().t(), seed=11, offset=3), first)
    assert torch.equal(sample(x, seed=-5), sample(x, seed=2**64 - 5))
    for seed, offset in ((12, 3), (11, 4), (11 + 2**32, 3), (11, 3 + 2**32)):
        assert not torch.equal(sample(x, seed=seed, offset=offset), first)
    generator = torch.Generator().manual_seed(5)
    drawn = [sample(x, generator=generator) for _ in range(2)]
    assert not torch.equal(*drawn)
    assert torch.equal(sample(x, generator=generator.manual_seed(5)), drawn[0])
    torch.manual_seed(3)
    drawn = sample(x)
    torch.manual_seed(3)
    assert torch.equal(sample(x), drawn)
    assert sample(x[:0]).shape == (0,)
    assert torch.equal(sample(x, temperature=1e-6), x.argmax(-1))
    assert torch.equal(sample(x, top_k=1), x.argmax(-1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_operators_keep_pytorchs_rules(dtype: torch.dtype):
    for x, whole in ((torch.randn(4, 6), True), (torch.randn(6, 4).t(), False)):
        x = x.to(dtype)
        opcheck(topk.operator, (x.detach().requires_grad_(), 3, whole))
        opcheck(sampling.operator, (x, 0.7, 3, 0.9, -5, 6))
        given = torch.tensor(0.7).double(), 3, torch.tensor(0.9).double(), torch.tensor(-5), 6
        opcheck(sampling.operator_of_tensors, (x, *given))


def test_they_compile_as_one_graph():
    x = torch.randn(4, 40)

    def both(x: Tensor, seed: int) -> tuple[Tensor, ...]:
        return *topk_softmax(2 * x, 3), sample(2 * x, top_k=5, top_p=0.9, seed=seed)

    compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
    for seed in (1, 2, 3):
        for mine, theirs in zip(compiled(x, seed), both(x, seed), strict=True):
            assert_close(mine, theirs)


@pytest.fixture(params=["eager", "aot_eager", "inductor"])
def compiled(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """torch.compile of a function as one graph; ``graphs`` counts what was compiled of it."""
    if request.param == "inductor" and not which(os.environ.get("CXX", "g++")):
        pytest.skip("needs a C++ compiler")
    torch._dynamo.reset()

    def compiled(f: Callable[..., Any], **options: Any) -> Any:
        def backend(module: Any, inputs: Any) -> Any:
            compiled.graphs += 1  # pyright: ignore[reportFunctionMemberAccess]
            return torch._dynamo.lookup_backend(request.param)(module, inputs)

        return torch.compile(f, fullgraph=True, backend=backend, **options)

    compiled.graphs = 0  # pyright: ignore[reportFunctionMemberAccess]
    return compiled


def test_a_compiled_sample_takes_numbers_that_change(compiled: Any):
    x = torch.randn(6, 90)

    def draw(x: Tensor, t: float, k: int, p: float, seed: int) -> Tensor:
        return sample(2 * x, temperature=t, top_k=k, top_p=p, seed=seed, offset=3)

    graph = compiled(draw)
    for i in range(12):  # more than torch.compile makes graphs of one function
        given = 0.5 + 0.1 * i, 4 + 3 * i, 0.4 + 0.05 * i, 2 + 7**i
        assert torch.equal(graph(x, *given), draw(x, *given))
    assert compiled.graphs == 2  # of numbers that stay, and of those that change
    for seed in (2**40, 2**63 - 1):
        assert torch.equal(graph(x, 0.9, 5, 0.7, seed), draw(x, 0.9, 5, 0.7, seed))
    with pytest.raises(ValueError, match=r"above 0; got 0\.0: for 0 use logits\.argmax"):
        graph(x, 0.0, 5, 0.9, 2)
    with pytest.raises(ValueError, match=r"above 0 and at most 1; got 1\.5"):
        graph(x, 1.0, 5, 1.5, 2)


@pytest.mark.parametrize("seed", [0, -5, 2**63, 2**64 - 5])
def test_a_compiled_sample_takes_seeds_of_64_bits(compiled: Any, seed: int):
    x = torch.randn(6, 90)
    graph = compiled(lambda x, seed: sample(x, seed=seed))
    assert torch.equal(graph(x, seed), sample(x, seed=seed))


def test_a_compiled_sample_draws_its_seed_from_torchs_generator(compiled: Any):
    x = torch.randn(64, 90)
    graph = compiled(lambda x: torch.stack((sample(x), sample(x, top_k=50))))
    drawn = []
    for _ in range(2):
        torch.manual_seed(7)
        drawn += [graph(x), graph(x)]
    assert torch.equal(torch.stack(drawn[:2]), torch.stack(drawn[2:]))
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(*drawn[0])
    with inductor.patch(fallback_random=True):
        torch._dynamo.reset()
        torch.manual_seed(7)
        first = compiled(lambda x: sample(x))(x)
    torch.manual_seed(7)
    assert torch.equal(first, sample(x))


def test_compiled_shapes_may_change(compiled: Any):
    def both(x: Tensor, k: int) -> tuple[Tensor, ...]:
        return *topk_softmax(x, k), sample(x, top_k=k, temperature=k / 4, seed=k)

    graph = compiled(both, dynamic=True)
    for rows in range(2, 14):
        x = torch.randn(rows, 8 * rows)
        for mine, theirs in zip(graph(x, rows), both(x, rows), strict=True):
            assert_close(mine, theirs)
    assert compiled.graphs <= 2


def test_a_generator_is_refused_where_a_graph_is_compiled(compiled: Any):
    generator = torch.Generator()
    graph = compiled(lambda x: sample(x, generator=generator))
    with pytest.raises(Exception, match="sample takes no generator where a graph is compiled: lea"):
        graph(torch.randn(3, 5))
