"""Calls of attention past the dispatcher: a launch is bound once, and right wherever tensors lie.

Kernels are torch's, on the memory of this machine: they know addresses, and what was bound.
"""

import json
import math
import os
import subprocess
import sys
from contextlib import nullcontext
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from triton.backends.nvidia.compiler import CUDABackend
from triton.runtime.jit import native_specialize_impl

import kernels
from kernels import attention_api, attention_eager, prepared, unwatched
from kernels.attention_eager import attention
from kernels.registry import ROOT
from kernels.triton import triton_attention
from tests.kernels.attention_cases import Shape, Tensors, address, random
from tests.kernels.test_attention import by_torch
from tests.kernels.test_eager import at

SHAPE = Shape(2, 4, 2, 5, 9, 64)
OPERANDS, STEPS = ("query", "key", "value", "out"), ("batch", "head", "row")
NAMES = (
    *(f"{name}_{step}" for name in OPERANDS for step in STEPS),
    *("queries", "keys", "heads", "group", "scale"),
    *("DIM", "QUERIES", "KEYS", "CAUSAL", "COPIED"),
)  # fmt: skip


class Compiled:
    """A kernel of Triton's as its launch is used: bound to a grid, then given all arguments."""

    batches: ClassVar[int]  # of the call

    def __init__(self, seen: list[str], given: tuple[Any, ...], **told: Any):
        seen.append("bound")
        self.seen, self.told, self.dtype = seen, told, given[0].dtype
        self.places = [address(t) % 16 == 0 for t in given[:4]]
        self.numbers = compiled_for(given[4:])

    def __getitem__(self, grid: tuple[int, int, int]) -> Any:
        def run(*given: Any, stream: int) -> None:
            assert stream == 77
            self.seen.append("run")
            places = [address(place) for place in given[:4]]
            assert [place % 16 == 0 for place in places] == self.places
            told = dict(zip(NAMES, given[4:], strict=True))
            assert compiled_for(given[4 : 4 + len(NAMES) - 5]) == self.numbers
            assert [self.told[n] for n in NAMES[-5:]] == [told[n] for n in NAMES[-5:]]
            queries, keys, heads = told["queries"], told["keys"], told["heads"]
            assert all(x.shape[2] == keys for x in given[1:3] if told["COPIED"])
            blocks = -(-queries // told["QUERIES"])
            assert grid == (blocks * heads * self.batches, 1, 1)
            query, key, value, out = (
                at(place, torch.empty_strided(
                    (self.batches, of, rows, told["DIM"]),
                    (*(told[f"{name}_{step}"] for step in STEPS), 1),
                    dtype=self.dtype, device="meta",
                ))
                for place, name, of, rows in zip(
                    places, OPERANDS, (heads, *[heads // told["group"]] * 2, heads),
                    (queries, keys, keys, queries), strict=True,
                )
            )  # fmt: skip
            scale = told["scale"] / triton_attention.LOG2E
            y = torch.nn.functional.scaled_dot_product_attention(
                query.double(), key.double(), value.double(), scale=scale,
                is_causal=told["CAUSAL"], enable_gqa=True,
            )  # fmt: skip
            out.copy_(y)

        return run


def compiled_for(numbers: tuple[Any, ...]) -> list[Any]:
    """What Triton may have compiled in of integers; of a float nothing."""
    return [(n == 1, n % 16 == 0, n < 2**31) if isinstance(n, int) else float for n in numbers]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was bound, run, or went by ``attention_api.attention``."""
    seen: list[str] = []

    class Kernel:
        @staticmethod
        def warmup(*arguments: Any, **told: Any) -> Compiled:
            return Compiled(seen, arguments, **told)

    def slow(*arguments: Any, **told: Any) -> Tensor:
        seen.append("api")
        return checked(*arguments, **told)

    def launched(query: Tensor, *rest: Any) -> Tensor | None:
        Compiled.batches = query.shape[0]
        return own(query, *rest)

    checked, own = attention_api.attention, attention_eager._launched
    monkeypatch.setattr(attention_eager, "_launched", launched)
    monkeypatch.setattr(triton_attention, "_attention", Kernel)
    monkeypatch.setattr(attention_api, "attention", slow)
    monkeypatch.setattr(attention_api, "_shared", lambda device: triton_attention.HOPPER)
    refusal = attention_api.refusal
    alone = "the tensors are not on a CUDA GPU"
    monkeypatch.setattr(
        attention_api, "refusal",
        lambda *tensors, scale=None: (
            attention_api._unserved(*attention_api._batched(*tensors), scale)
            if (why := refusal(*tensors, scale=scale)) == alone else why
        ),
    )  # fmt: skip
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 77, raising=False)
    monkeypatch.setattr(prepared, "make_current", lambda device: None)
    monkeypatch.setattr(prepared, "relaxed", nullcontext)
    monkeypatch.setattr(prepared, "THREAD", prepared._Thread())
    monkeypatch.setattr(attention_eager, "_BY_TORCH", {})
    monkeypatch.setattr(attention_eager, "_KERNELS", {})
    monkeypatch.setattr(unwatched, "DENSE", {torch._C._dispatch_keys(torch.zeros(1)).raw_repr()})
    return seen


def right(given: Tensors, **asked: Any) -> None:
    y = attention(*given, **asked)
    query, key, value = (t.double() for t in given)
    exact = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, enable_gqa=True, **asked
    )
    assert_close(y.double(), exact, atol=8e-3, rtol=8e-3)
    assert y.dtype == given[0].dtype
    assert y.stride() == torch.empty_like(given[0]).stride()


def test_it_is_what_users_call():
    assert kernels.attention is attention
    assert attention.__doc__ == attention_api.attention.__doc__


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_second_call_runs_what_the_first_bound(seen: list[str], dtype: torch.dtype):
    several: tuple[tuple[dict[str, Any], bool], ...] = (
        ({}, True), ({"is_causal": True}, True), ({"scale": 0.25}, False),
    )  # fmt: skip
    for asked, anew in several:
        for shape in (SHAPE, Shape(1, 2, 1, 200, 17, 128), Shape(1, 2, 1, 70, 1100, 64)):
            seen.clear()
            for _ in range(3):
                right(random(shape, dtype), **asked)
            assert seen == ["bound"] * anew + ["run", "run", "run"]


def test_a_text_that_grows_asks_for_no_other_kernel(seen: list[str]):
    for length in (*range(2, 36), 36):
        right(random(Shape(2, 4, 2, length, length, 64), torch.bfloat16), is_causal=True)
    assert seen.count("bound") == 2  # Triton may compile another one for multiples of 16
    for length in (1, 63, 64, 65, 129):
        right(random(Shape(2, 4, 2, length, length, 64), torch.bfloat16), is_causal=True)
    assert seen.count("bound") <= 2 + 3
    assert seen.count("run") == 40


def test_lengths_of_one_kind_are_one_kernel_to_triton():
    found: dict[Any, set[Any]] = {}
    for near in (0, 16, 4096, 2**31, 2**32, 2**40):
        for n in range(max(0, near - 17), near + 18):
            special = native_specialize_impl(CUDABackend, n, False, True, True)
            found.setdefault(attention_eager._kind(n), set()).add(special)
    assert [len(kernels) for kernels in found.values()] == [1] * 5


def test_another_gpu_has_kernels_of_its_own(seen: list[str], monkeypatch: pytest.MonkeyPatch):
    for device in (0, 1):
        monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda device=device: device)
        monkeypatch.setattr(Tensor, "get_device", lambda _, device=device: device)
        right(random(SHAPE, torch.bfloat16))
    assert seen == ["bound", "run"] * 2


def test_few_kernels_are_remembered(seen: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attention_eager, "KEPT", 2)
    for dtype in (torch.float16, torch.bfloat16):
        for causal in (False, True):
            right(random(SHAPE, dtype), is_causal=causal)
    assert seen == ["bound", "run"] * 4
    assert len(attention_eager._KERNELS) == 2


def test_what_lies_otherwise_is_bound_by_itself(seen: list[str]):
    query, key, value = random(SHAPE, torch.bfloat16)
    beside = query.transpose(1, 2).contiguous().transpose(1, 2)
    memory = torch.zeros(query.numel() + 1, dtype=query.dtype)
    off = memory[1:].view(query.shape).copy_(query)
    assert off.data_ptr() % 16
    value = value.transpose(1, 2).contiguous().transpose(1, 2)  # as key does not lie
    uneven = torch.zeros(*query.shape[:3], 68, dtype=query.dtype)[..., :64].copy_(query)
    for other, anew in (
        (query, True), (beside, False), (off, True), (query[:, :2], True), (uneven, True)
    ):  # fmt: skip
        seen.clear()
        right((other, key, value))
        right((other.clone() if other is query else other, key, value))
        assert seen == ["bound"] * anew + ["run", "run"]


def test_one_row_for_all_keys_is_no_descriptors(seen: list[str]):
    query, key, value = random(Shape(1, 2, 1, 70, 1100, 64), torch.bfloat16)
    one = value[:, :, :1].expand(-1, -1, 1100, -1)
    right((query, key, one))
    right((query, one, value))
    assert seen == ["bound", "run", "run"]


def test_what_is_no_single_launch_goes_the_long_way(
    seen: list[str], monkeypatch: pytest.MonkeyPatch
):
    query, key, value = random(SHAPE, torch.bfloat16)
    apart = torch.zeros(*key.shape[:3], 2 * key.shape[3], dtype=key.dtype)[..., ::2].copy_(key)
    memory = torch.zeros(key.numel() + 1, dtype=key.dtype)
    off = memory[1:].view(key.shape).copy_(key)
    leaf = query.detach().clone().requires_grad_()
    monkeypatch.setattr(attention_api, "_warn_once", lambda reason: None)
    torch_s = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(attention_api, "operator", lambda q, k, v, causal, scale: torch_s(
        q, k, v, is_causal=causal, scale=scale, enable_gqa=True
    ))  # fmt: skip
    several: tuple[tuple[Tensors, dict[str, Any]], ...] = (
        ((query, apart, value), {}), ((query, off, value), {}), ((query, key, off), {}),
        ((query.float(), key.float(), value.float()), {}), ((leaf, key, value), {}),
        ((query[..., :40], key[..., :40], value[..., :40]), {}),
        ((query, key, value), {"scale": 1}),
        ((query[0], key[0], value[0]), {}), ((query[:0], key[:0], value[:0]), {}),
        ((query, key, value), {"dropout_p": 0}),
        ((query, key[:, :, :0], value[:, :, :0]), {}),
    )  # fmt: skip
    for given, asked in several:
        seen.clear()
        y = attention(*given, **asked)
        assert seen == ["api"], (given[0].shape, asked)
        assert y.shape == given[0].shape
        assert y.requires_grad == given[0].requires_grad


def test_what_torch_computes_is_checked_once(seen: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attention_api, "_warn_once", lambda reason: None)
    singles, halves = random(SHAPE, torch.float32), random(SHAPE, torch.bfloat16)
    leaf = halves[1].detach().clone().requires_grad_()
    several: tuple[tuple[Tensors, dict[str, Any]], ...] = (
        (singles, {}), (singles, {"is_causal": True}), (singles, {"scale": 0.25}),
        ((singles[0].mT.contiguous().mT, *singles[1:]), {}), (random(SHAPE, torch.float64), {}),
        ((halves[0], leaf, halves[2]), {}), ((singles[0][:, :2], *singles[1:]), {}),
        ((singles[0], leaf.float().detach().requires_grad_(), singles[2]), {}),
    )  # fmt: skip
    for given, asked in several:
        seen.clear()
        expected = torch.nn.functional.scaled_dot_product_attention(
            *given, enable_gqa=True, **asked
        )
        for _ in range(3):
            y = attention(*given, **asked)
            assert torch.equal(y, expected)
            assert y.requires_grad == expected.requires_grad
        assert seen == ["api"], (given[0].dtype, asked)
    seen.clear()
    with torch.no_grad():
        attention(halves[0], leaf, halves[2])
    assert seen == ["bound", "run"]  # no gradient is wanted
    for wrong in ((singles[0], singles[1], singles[2][:1]), (singles[0], *halves[1:])):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="expect"):
                attention(*wrong)


def test_a_trace_before_the_dispatcher_sees_the_operator(seen: list[str]):
    given = random(SHAPE, torch.bfloat16)
    for before in (False, True):
        seen.clear()
        graph = make_fx(lambda q, k, v: attention(q, k, v), pre_dispatch=before)(*given)
        assert seen == ["api"]
        assert "roofline.attention" in graph.code


@pytest.mark.filterwarnings("ignore:attention goes through")
def test_a_derivative_of_a_derivative_goes_its_own_way_each_time(seen: list[str]):
    given = random(SHAPE, torch.float32)

    def scaled(x: Tensor) -> Tensor:
        return (attention(*given) * x * x).sum()

    attention(*given)
    seen.clear()
    x = torch.tensor(2.0)
    found = [torch.func.grad(torch.func.grad(scaled))(x) for _ in range(2)]
    assert torch.equal(*found)
    assert seen == ["api", "api"]


def test_few_calls_of_torch_are_remembered(seen: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attention_api, "_warn_once", lambda reason: None)
    monkeypatch.setattr(attention_eager, "KEPT", 3)
    x = torch.randn(1, 1, 8, 8)
    for length in (1, 2, 3, 4, 1, 4):
        attention(x[:, :, :length], x, x)
    assert seen == ["api"] * 5
    assert len(attention_eager._BY_TORCH) == 2


def test_what_is_wrong_is_told_as_by_the_long_way(seen: list[str]):
    query, key, value = random(SHAPE, torch.bfloat16)
    several: tuple[tuple[Any, dict[str, Any], type[Exception], str], ...] = (
        ((query, key[:1], value), {}, RuntimeError, "one B of all three"),
        ((query, key.half(), value), {}, RuntimeError, "of one dtype"),
        ((query[:, :3], key, value), {}, RuntimeError, "as many heads"),
        ((query, key, value), {"scale": math.nan}, ValueError, "finite"),
        ((query, key, value), {"is_causal": 1}, TypeError, "is_causal"),
        ((query, key, None), {}, TypeError, "value"),
    )  # fmt: skip
    for given, asked, error, words in several:
        with pytest.raises(error, match=words):
            attention(*given, **asked)
    assert set(seen) == {"api"}


def test_modes_see_the_call(seen: list[str], monkeypatch: pytest.MonkeyPatch):
    given = random(SHAPE, torch.bfloat16)
    monkeypatch.setattr(attention_api, "operator", lambda q, k, v, causal, scale: by_torch(q, k, v))

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    with Watch():
        attention(*given)
    with torch.autograd.forward_ad.dual_level():
        attention(*given)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *kind: not kind)  # of CUDA
    monkeypatch.setattr(torch, "get_autocast_dtype", {"cuda": torch.float16}.get)
    attention(*given)
    assert seen == ["api", "api", "api"]


def test_autocast_to_what_tensors_are_changes_nothing(
    seen: list[str], monkeypatch: pytest.MonkeyPatch
):
    query, key, value = random(SHAPE, torch.bfloat16)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *kind: not kind)  # of CUDA
    monkeypatch.setattr(torch, "get_autocast_dtype", {"cuda": torch.bfloat16}.get)
    for _ in range(2):
        right((query, key, value), is_causal=True)
    assert seen == ["bound", "run", "run"]
    # What autocast would cast is left to it; here, on the CPU, nobody does.
    for other in ((query, key.float(), value), (query, key, value.half())):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="of one dtype"):
                attention(*other)
    assert seen == ["bound", "run", "run"] + 4 * ["api"]


def test_what_autocast_made_right_is_checked_again_without_it(
    seen: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(attention_api, "_warn_once", lambda reason: None)
    query, key, value = random(SHAPE, torch.bfloat16)
    given = query.requires_grad_(), key.float(), value
    enabled = torch.is_autocast_enabled
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind="cpu": enabled(kind))
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda kind: torch.bfloat16)
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            assert attention(*given).requires_grad
        with pytest.raises(RuntimeError, match="of one dtype"):
            attention(*given)
    assert seen == ["api"] * 4  # the first, and each without autocast


def test_a_kept_launch_is_tritons_own():
    """As Triton itself hands it to the GPU (attention_launches.py), which is not there."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.attention_launches"], cwd=ROOT.parent,
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    pairs = json.loads(done.stdout)
    assert len(pairs) == 24
    for kept, own in pairs:
        assert kept == own
        assert len(kept[-1]) == 4 + len(NAMES)
