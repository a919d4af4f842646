"""Top-k and sampling on the GPU: what torch gives, whatever way a row goes."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.library import opcheck

from kernels import sample, sampling, sampling_torch, topk, topk_softmax
from tests.kernels.kept import kept, p_value

pytestmark = [pytest.mark.gpu]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
LEAST = 1e-4  # of a p-value
ALL = ((None, None), (1, None), (50, None), (128, 0.8), (None, 0.9), (None, 1e-9), (1000, None),
       (1000, 0.7))  # fmt: skip


def rows(count: int, cols: int, dtype: torch.dtype, offset: int = 0) -> Tensor:
    """Normal rows, and one of ties, of -inf, of NaN among others, ascending, of +inf."""
    memory = torch.full((count * (cols + 3) + 64,), math.nan, dtype=dtype, device="cuda")
    x = memory.as_strided((count, cols), (cols + 3 * (offset > 0), 1), 16 + offset)
    x.copy_(3 * torch.randn(count, cols, device="cuda"))
    if count > 5:
        x[1] = torch.randint(-3, 4, (cols,), device="cuda").to(dtype)
        x[2] = -math.inf
        x[3, cols // 2] = math.nan
        x[4] = torch.arange(cols, device="cuda").to(dtype) / 64
        x[5, cols // 3] = math.inf
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 131_072), (8, 50_257), (64, 128_256), (300, 1000), (9, 7)])
def test_topk_is_exact_and_stable(shape: tuple[int, int], dtype: torch.dtype):
    for offset in (0, 1, 5):
        x = rows(*shape, dtype, offset)
        wide, order = torch.sort(x.double(), dim=-1, descending=True, stable=True)
        for k in {1, min(8, shape[1]), min(50, shape[1]), min(128, shape[1])}:
            for normalize in ("all", "topk"):
                values, indices = topk_softmax(x, k, normalize=normalize)
                assert torch.equal(indices, order[:, :k])
                exact = torch.softmax(x.double(), -1).gather(-1, indices)
                p = exact if normalize == "all" else torch.softmax(wide[:, :k], -1)
                torch.testing.assert_close(
                    values.double(), p, rtol=2e-5 if dtype == torch.float32 else 1e-2, atol=1e-7,
                    equal_nan=True,
                )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("top_k", "top_p"), ALL)
def test_ids_are_those_of_the_cpu(top_k: int | None, top_p: float | None, dtype: torch.dtype):
    for n, shape in enumerate(((1, 131_072), (8, 50_257), (70, 2001), (9, 7))):
        x = rows(*shape, dtype, n % 3)
        k = min(top_k, shape[1]) if top_k else None
        ids = sample(x, temperature=0.8, top_k=k, top_p=top_p, seed=2**63 + n, offset=2**40)
        theirs = sample(
            x.cpu(), temperature=0.8, top_k=k, top_p=top_p, seed=2**63 + n, offset=2**40
        )
        assert torch.equal(ids.cpu(), theirs)


def test_noise_has_the_same_bits_on_both():
    word = torch.randint(2**32, (10**6,))
    noise = sampling_torch.gumbel(word)
    assert torch.equal(sampling_torch.gumbel(word.cuda()).cpu(), noise)


def test_rows_in_groups_are_sampled_as_alone():
    x = torch.randn(96, 131_072, device="cuda")  # 48 MiB
    ids = sample(x, top_p=0.9, seed=1)
    assert torch.equal(sample(x[:3], top_p=0.9, seed=1), ids[:3])
    assert torch.equal(sample(x[:80], top_p=0.9, seed=1), ids[:80])


def test_many_samples_have_the_distribution():
    p = torch.softmax(torch.randn(40, device="cuda"), -1)
    ids = sample(p.log().expand(10**6, -1), seed=3)
    seen = torch.bincount(ids, minlength=40).double()
    expected = p.double() * 10**6
    chi_square = float(((seen - expected) ** 2 / expected).sum())
    assert abs(chi_square - 39) < 5 * math.sqrt(2 * 39)


@pytest.mark.parametrize(("top_k", "top_p"), ALL)
def test_samples_of_a_vocabulary_have_the_distribution(top_k: int | None, top_p: float | None):
    logits = 2 * torch.randn(128_256, generator=torch.Generator().manual_seed(1)).cuda()
    x, p = logits.expand(2048, -1), kept(logits, 0.8, top_k, top_p)
    options: dict[str, Any] = {"temperature": 0.8, "top_k": top_k, "top_p": top_p, "seed": 5}
    ids = torch.cat([sample(x, offset=4 * i, **options) for i in range(50)])
    inside = p[ids] > 0
    # Where a share of top_p ends, sums in float32 may keep a token that float64 leaves out.
    assert int((~inside).sum()) <= 2
    assert p_value(ids[inside], p) > LEAST


@pytest.mark.parametrize(("top_k", "top_p"), ALL)
@pytest.mark.usefixtures("collected")
def test_graphs_replay_and_streams_do_not_disturb_one_another(
    top_k: int | None, top_p: float | None
):
    x = torch.randn(4, 50_257, device="cuda")
    expected = sample(x, top_k=top_k, top_p=top_p, seed=5)
    top = topk_softmax(x, 50)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ids, (values, indices) = sample(x, top_k=top_k, top_p=top_p, seed=5), topk_softmax(x, 50)
    for _ in range(3):
        ids.fill_(-1)
        indices.fill_(-1)
        graph.replay()
        assert torch.equal(ids, expected)
        assert torch.equal(indices, top[1])
        assert torch.equal(values, top[0])
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(4)]
    found = []
    for i in range(40):
        with torch.cuda.stream(streams[i % 4]):
            found.append(sample(x, top_k=top_k, top_p=top_p, seed=5))
    torch.cuda.synchronize()
    assert all(torch.equal(one, expected) for one in found)


def test_a_generator_of_the_gpu_moves_on():
    x = torch.randn(64, 1000, device="cuda")
    generator = torch.Generator("cuda").manual_seed(4)
    first, second = sample(x, generator=generator), sample(x, generator=generator)
    assert not torch.equal(first, second)
    assert torch.equal(sample(x, generator=generator.manual_seed(4)), first)


def test_the_operators_keep_pytorchs_rules():
    x = torch.randn(4, 600, device="cuda")
    opcheck(sampling.operator, (x, 0.7, None, 1.0, -5, 6))
    opcheck(sampling.operator, (x, 0.7, 300, 0.9, 5, 6))
    given = torch.tensor(0.7).double(), 300, torch.tensor(0.9).double(), torch.tensor(5), 6
    opcheck(sampling.operator_of_tensors, (x, *given))
    opcheck(topk.operator, (x.requires_grad_(), 3, True))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_sample_takes_numbers_that_change(backend: str):
    torch._dynamo.reset()
    x = torch.randn(6, 5000, device="cuda")

    def draw(x: Tensor, t: float, k: int, p: float, seed: int) -> Tensor:
        return sample(2 * x, temperature=t, top_k=k, top_p=p, seed=seed, offset=3)

    graph = torch.compile(draw, fullgraph=True, backend=backend)
    for i in range(12):  # more than torch.compile makes graphs of one function
        given = 0.5 + 0.1 * i, 4 + 30 * i, 0.4 + 0.05 * i, 2 + 7**i
        assert torch.equal(graph(x, *given), draw(x, *given))
    drawing = torch.compile(lambda x: sample(x), fullgraph=True, backend=backend)
    torch.manual_seed(7)
    first, second = drawing(x), drawing(x)
    torch.manual_seed(7)
    assert torch.equal(drawing(x), first)
    assert not torch.equal(first, second)
    torch.manual_seed(7)
    assert backend == "inductor" or torch.equal(sample(x), first)
