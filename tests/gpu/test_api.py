"""kernels.softmax on the GPU: gradients in any memory, and all that PyTorch does to a call."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.library import opcheck
from torch.testing import assert_close

from experiments.check import check, planted
from kernels import log_softmax, ops, softmax
from kernels.frontier.backward import softmax_backward
from kernels.operators import composed

pytestmark = pytest.mark.gpu

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
NEAR = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
WIDTHS = (1, 7, 63, 256, 1000, 4097, 20_001, 50_257, 131_072, 300_001)


def exact(grad: Tensor, y: Tensor) -> Tensor:
    p, g = y.double(), grad.double()
    return p * (g - (g * p).sum(-1, keepdim=True))


def close(dx: Tensor, grad: Tensor, y: Tensor) -> None:
    """Relative to the terms that were subtracted: where y is almost 1 they cancel."""
    p, g = y.double(), grad.double()
    terms = p * (g.abs() + (g * p).abs().sum(-1, keepdim=True))
    floor = 2.0**-24 if dx.dtype == torch.float16 else 1e-37  # the least that is not 0
    worst = ((dx.double() - exact(grad, y)).abs() / (terms + floor / NEAR[dx.dtype])).max().item()
    assert worst < NEAR[dx.dtype], worst


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cols", WIDTHS)
def test_gradients_are_right_in_any_memory_and_nothing_else_is_written(
    cols: int, dtype: torch.dtype
):
    rows = max(3, min(300, 2**20 // cols))
    for gap, offsets in ((0, (0, 0, 0)), (0, (1, 1, 1)), (0, (1, 2, 4)), (5, (3, 0, 1))):
        around = [
            torch.full((rows * (cols + gap) + 64,), fill, dtype=dtype, device="cuda")
            for fill in (torch.nan, torch.nan, 7.0)
        ]
        y, grad, out = (
            memory.as_strided((rows, cols), (cols + gap, 1), 16 + offset)
            for memory, offset in zip(around, offsets, strict=True)
        )
        y.copy_(torch.softmax(planted(rows, cols, dtype, "cuda", seed=cols).float(), -1))
        grad.copy_(torch.randn(rows, cols, device="cuda"))
        softmax_backward(grad, y, out.fill_(torch.nan))
        close(out, grad, y)
        out.fill_(7.0)
        assert bool((around[2] == 7.0).all()), (cols, gap, offsets)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_any_tensor_are_right(dtype: torch.dtype):
    whole = torch.randn(6, 10, 40, device="cuda", dtype=dtype)
    for x in (whole, whole[:, 1:7, 3:], whole.mT, whole[..., ::2], whole[0, 0, 0], whole[:0]):
        for dim in range(x.dim() or 1):
            for to in (None, torch.float32):
                leaf = x.detach().requires_grad_()
                y = softmax(leaf, dim, dtype=to)
                for grad in (
                    torch.randn_like(y),
                    torch.ones_like(y[..., :1] if y.dim() else y).expand_as(y),
                ):
                    (dx,) = torch.autograd.grad(y, leaf, grad, retain_graph=True)
                    wide = x.detach().double().requires_grad_()
                    (expected,) = torch.autograd.grad(torch.softmax(wide, dim), wide, grad.double())
                    assert dx.dtype == dtype
                    near = 1e-6 if dtype == torch.float32 else NEAR[dtype]
                    assert_close(dx.double(), expected, atol=near, rtol=NEAR[dtype])


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
def test_any_tensor_dim_and_output_is_torchs(dtype: torch.dtype):
    whole = torch.randn(6, 10, 40, device="cuda").to(dtype)
    for x in (
        whole,
        whole[:, 1:7, 3:],
        whole.mT,
        whole[..., ::2],
        whole[0, 0, 0],
        whole[:0],
        whole[0],
    ):
        for dim in range(-max(1, x.dim()), max(1, x.dim())):
            for to in (None, torch.float32, torch.float64):
                expected = torch.softmax(x, dim, dtype=to)
                y = softmax(x, dim, dtype=to)
                assert_close(y, expected)
                assert y.stride() == expected.stride()
                place = torch.zeros((*x.shape, 2), dtype=y.dtype, device="cuda")[..., 0]
                assert softmax(x, dim, dtype=to, out=place) is place
                assert torch.equal(place, y)
            mine = x.clone()
            assert_close(softmax(mine, dim, out=mine), torch.softmax(x, dim))


@pytest.mark.parametrize("dtype", DTYPES)
def test_calls_past_the_dispatcher_are_right_again_and_in_graphs(dtype: torch.dtype):
    """Of every kind twice, on other memory that lies alike; then captured, on another stream."""
    shape = (6, 40, 264)
    mask = torch.rand(shape, device="cuda") < 0.7
    mask[..., 0] = True
    added = torch.randn(shape[-2:], device="cuda").to(dtype)
    asked: dict[str, dict[str, Any]] = {
        "plain": {}, "middle": {"dim": 1}, "first": {"dim": 0}, "scale": {"scale": 0.5},
        "factor": {"factor": 3.0}, "mask": {"mask": mask}, "added": {"mask": added},
        "causal": {"is_causal": True}, "invariant": {"invariant": True},
    }  # fmt: skip
    for name, options in asked.items():
        for call, log in ((softmax, False), (log_softmax, True)):
            several = [torch.randn(shape, device="cuda").to(dtype) for _ in range(3)]
            several.append(torch.randn(8, 40, 272, device="cuda").to(dtype)[1:7, :, 3:267])
            rest: dict[str, Any] = {
                "mask": None,
                "dim": -1,
                "scale": 1.0,
                "factor": 1.0,
                "is_causal": False,
            }
            told = {**rest, **options}
            told.pop("invariant", None)
            for x in several:
                wide = told["mask"]
                if isinstance(wide, Tensor) and wide.dtype == dtype:
                    wide = wide.double()
                exact = composed(
                    x.double(), wide, told["dim"], None, log, told["scale"], told["factor"],
                    told["is_causal"],
                )  # fmt: skip
                out, mine = torch.empty_like(x), x.clone()
                near = 3 * NEAR[dtype]
                y = call(x, **options)
                assert call(x, out=out, **options) is out
                call(mine, out=mine, **options)
                for each in (y, out, mine):
                    assert_close(each.double(), exact, atol=near, rtol=near, msg=name)
                leaf, grad = x.detach().clone().requires_grad_(), torch.randn_like(x)
                leaf64 = x.double().requires_grad_()
                call(leaf, **options).backward(grad)
                composed(
                    leaf64, wide, told["dim"], None, log, told["scale"], told["factor"],
                    told["is_causal"],
                ).backward(grad.double())  # fmt: skip
                assert leaf.grad is not None
                assert_close(
                    leaf.grad.double(), leaf64.grad, atol=20 * NEAR[dtype], rtol=20 * NEAR[dtype]
                )
            x, graph = several[0], torch.cuda.CUDAGraph()
            expected = call(several[1], **options)
            with torch.cuda.graph(graph):
                y = call(x, **options)
            x.copy_(several[1])
            graph.replay()
            assert torch.equal(y, expected)


def test_the_operators_keep_pytorchs_rules():
    for dtype in DTYPES:
        for x in (torch.randn(4, 60, device="cuda"), torch.randn(6, 5, 7, device="cuda").mT):
            x = x.to(dtype)
            for wanted in (False, True):
                leaf = x.detach().requires_grad_(wanted)
                opcheck(ops.softmax, (leaf, -1, None, False))
                opcheck(ops.softmax, (leaf, 0, torch.float32, False))
            y = torch.softmax(x, -1).requires_grad_()
            opcheck(ops.softmax_backward, (torch.randn_like(y).requires_grad_(), y, -1, dtype))


def test_one_graph_serves_two_shapes():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: softmax(2 * x) + 1, fullgraph=True, dynamic=True)
    graphs: list[int] = []
    for rows, cols in ((48, 1000), (7, 50_257)):
        x = torch.randn(rows, cols, device="cuda", dtype=torch.bfloat16)
        assert_close(compiled(x), torch.softmax(2 * x, -1) + 1)
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[0] == graphs[1] > 0


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("cols", [1000, 50_257, 262_144, 1_000_003])
def test_it_compiles_as_one_graph(mode: str, cols: int):
    torch._dynamo.reset()

    def step(x: Tensor) -> Tensor:
        return softmax(2 * x) + 1

    compiled = torch.compile(step, fullgraph=True, mode=mode)
    for seed in range(5):  # graphs are captured at the second call, and replayed from the third
        torch.manual_seed(seed)
        x = torch.randn(48, cols, device="cuda", dtype=torch.bfloat16)
        assert_close(compiled(x).clone(), torch.softmax(2 * x, -1) + 1)
        leaf, theirs = (x.clone().requires_grad_() for _ in range(2))
        grad = torch.randn_like(x)
        compiled(leaf).backward(grad)
        step(theirs).backward(grad)
        assert leaf.grad is not None
        assert theirs.grad is not None
        assert_close(leaf.grad, theirs.grad)


def test_autocast_and_vmap_are_torchs():
    x = torch.randn(5, 6, 70, device="cuda", dtype=torch.float16)
    with torch.autocast("cuda"):
        mine, theirs = softmax(x), torch.softmax(x, -1)
    assert mine.dtype == theirs.dtype == torch.float32
    assert_close(mine, theirs)
    for at in (0, 1, 2):
        each = torch.vmap(lambda v: softmax(v, 0), in_dims=at)(x)
        assert_close(each, torch.vmap(lambda v: torch.softmax(v, 0), in_dims=at)(x))
    mine, theirs = (
        torch.func.jacrev(lambda v, f=f: f(v, -1))(x[0, 0].float())
        for f in (softmax, torch.softmax)
    )
    assert_close(mine, theirs)
    leaf = torch.randn(3, 5, device="cuda", requires_grad=True)
    twice = [
        torch.autograd.functional.hvp(lambda v, f=f: (f(v, -1) ** 3).sum(), leaf, leaf)[1]
        for f in (softmax, torch.softmax)
    ]
    assert_close(*twice)


def test_a_second_thread_is_served():
    x, made = torch.randn(64, 1000, device="cuda"), []
    thread = threading.Thread(target=lambda: made.append(softmax(x)))
    thread.start()
    thread.join()
    assert torch.equal(made[0], softmax(x))


@pytest.mark.parametrize("cols", [1000, 262_144, 1_000_003])
@pytest.mark.usefixtures("collected")
def test_a_foreign_capture_needs_no_warm_up(cols: int):
    rows = 37 + cols % 7  # a shape that no other test has prepared
    x = planted(rows, cols, torch.float32, "cuda", seed=1)
    grad, stream, graph = torch.randn_like(x), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        y = softmax(x)
        dx = ops.softmax_backward(grad, y, -1, x.dtype)
    for seed in (2, 3, 4):
        x.copy_(planted(rows, cols, torch.float32, "cuda", seed=seed))
        graph.replay()
        assert check(x, y).ok
        close(dx, grad, y)


def test_streams_and_threads_at_once_do_not_meet():
    xs = [planted(32, cols, torch.float32, "cuda", seed=s)
          for s, cols in enumerate((262_144, 300_001, 1_000_003, 1000))]  # fmt: skip
    expected = [softmax(x) for x in xs]
    torch.cuda.synchronize()
    failed: list[int] = []

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for i in range(30):
                x = xs[(number + i) % len(xs)]
                if not torch.equal(softmax(x), expected[(number + i) % len(xs)]):
                    failed.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_more_than_two_to_the_31_elements_are_indexed_whole():
    if torch.cuda.get_device_properties(0).total_memory < 40 * 2**30:
        pytest.skip("needs 40 GiB of GPU memory")
    rows, cols = 2**20 + 3, 2049
    x = torch.empty(rows, cols, dtype=torch.bfloat16, device="cuda").normal_()
    y = softmax(x)
    for part in (slice(0, 5), slice(rows - 5, rows)):
        assert check(x[part], y[part]).ok
    grad = torch.empty_like(x).normal_()
    dx = ops.softmax_backward(grad, y, -1, x.dtype)
    close(dx[-5:], grad[-5:], y[-5:])


def test_a_second_gpu_is_served():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    calls: list[Callable[[Tensor], Tensor]] = [softmax, lambda x: softmax(x.mT).mT]
    for cols in (1000, 300_001):
        x = torch.randn(32, cols, device="cuda:1")
        for call in calls:
            y = call(x)
            assert y.device == x.device
            assert torch.cuda.current_device() == 0
        leaf = x.requires_grad_()
        softmax(leaf).square().sum().backward()
        assert check(x.detach(), softmax(leaf.detach())).ok


@pytest.mark.parametrize("name", ["cuda_block_tree", "cuda_split_reread"])
def test_a_cuda_variant_runs_on_the_gpu_of_its_tensors(name: str):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    from kernels.launch import bind

    x = torch.randn(32, 1024, device="cuda:1")
    assert check(x, bind(name)(x, torch.empty_like(x))).ok
