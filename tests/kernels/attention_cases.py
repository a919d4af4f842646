"""Queries, keys and values as they may lie in memory, and what attention to them is exactly."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

AROUND = 7.0  # in memory around an output

Tensors = tuple[Tensor, Tensor, Tensor]  # queries, keys, values


class Shape(NamedTuple):
    """Batches, heads of queries and of keys, queries, keys, and elements of a head."""

    batches: int
    heads: int
    shared: int
    queries: int
    keys: int
    dim: int


class Case(NamedTuple):
    """Tensors, and the memory around the place for the output, full of AROUND."""

    query: Tensor
    key: Tensor
    value: Tensor
    out: Tensor
    memory: Tensor


def random(shape: Shape, dtype: torch.dtype, device: str = "cpu") -> Tensors:
    """Queries, keys and values of standard deviation 1, but for a few queries of 8."""
    many = torch.Generator(device).manual_seed(hash(shape))
    batches, heads, shared, queries, keys, dim = shape
    query, key, value = (
        torch.randn(batches, h, s, dim, generator=many, device=device)
        for h, s in ((heads, queries), (shared, keys), (shared, keys))
    )
    query[:, :, ::5] *= 8
    return query.to(dtype), key.to(dtype), value.to(dtype)


def far_from_0(shape: Shape, sign: float, most: int, device: str = "cpu") -> Tensors:
    """Of float16; one query's scores of the first ``most`` keys are near ``sign`` * 9e8, 64 apart.

    Floats are 64 apart there, and scaled ones farther than scores are.
    """
    query = torch.zeros(*shape[:2], shape.queries, shape.dim, dtype=torch.float16, device=device)
    key = torch.zeros(shape.batches, shape.shared, shape.keys, shape.dim, dtype=torch.float16)
    query[..., 0] = 0.01
    query[0, 0, 3, :2] = torch.tensor([30_000.0, 8.0])
    key[..., :most, 0] = 30_000.0 * sign
    key[..., 1] = 8.0 * (torch.arange(shape.keys) % 5)
    return query, key.to(device), random(shape, torch.float16, device)[2]


def layouts(shape: Shape, dtype: torch.dtype, device: str = "cpu") -> Iterator[Case]:
    """As torch allocates; heads beside one another; rows apart, that begin at any element."""
    given = random(shape, dtype, device)
    for order, gap, first in (((0, 1, 2), 0, 0), ((0, 2, 1), 0, 0), ((1, 0, 2), 3, 5)):
        # Nothing around an input is a number: what reads it shows.
        ins = [place(t, order, gap, first, math.nan)[0].copy_(t) for t in given]
        out, memory = place(given[0], order, gap, first, AROUND)
        yield Case(ins[0], ins[1], ins[2], out, memory)


def place(
    like: Tensor, order: tuple[int, ...], gap: int, first: int, fill: float
) -> tuple[Tensor, Tensor]:
    """Room for ``like`` in memory full of ``fill``, outermost dimension first in ``order``."""
    sizes, dim = like.shape[:3], like.shape[3]
    strides, step = [0, 0, 0], dim + gap
    for at in reversed(order):
        strides[at] = step
        step *= sizes[at]
    memory = torch.full((step + 2 * 64,), fill, dtype=like.dtype, device=like.device)
    return memory.as_strided(like.shape, (*strides, 1), 64 + first), memory


def exact(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """The attention in float64, and the same to the absolute values: the scale of its error."""
    group = query.shape[1] // key.shape[1]
    q, k, v = query.double(), *(t.double().repeat_interleave(group, 1) for t in (key, value))
    scores = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    weights = torch.softmax(scores, -1)
    return weights @ v, weights @ v.abs()


def assert_attention(case: Case, is_causal: bool, scale: float | None = None) -> None:
    """Raise AssertionError unless ``case.out`` is right; it is then erased.

    A weight and the result are each rounded once to the dtype, which the interpreter does by
    cutting off; weights of float16 below 2^-24 vanish.
    """
    query, key, value, out, memory = case
    expected, terms = exact(query, key, value, is_causal, scale)
    eps = torch.finfo(out.dtype).eps
    floor = 2.0**-24 * value.double().abs().sum(2).amax() if out.dtype == torch.float16 else 1e-30
    error = (out.double() - expected).abs() / (2 * eps * terms + floor)
    assert error.max().item() < 1, error.max().item()
    out.fill_(AROUND)
    assert bool((memory == AROUND).all()), "something beside the output was written"


def address(given: Any) -> int:
    """Of a tensor, of what a descriptor is of, or as it is."""
    of = getattr(given, "base", given)
    return of if isinstance(of, int) else of.data_ptr()
