"""What is exchanged between two runs of one transformer: all that is like a softmax in it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional

import kernels
from experiments.transformer.chance import TEMPERATURE, TOP_K, TOP_P


@dataclass(frozen=True)
class Operators:
    """The operators of one run.

    softmax        scores (B, H, S, S) and a scale: causal weights of their shape and dtype
    attention      queries, keys, values (B, H, S, D): the causal attention, where no gradient is
                   wanted
    cross_entropy  logits (B, S, V), which nobody needs afterwards, and targets (B, S): the mean
    sample         logits (B, V), a generator or None for torch's own: tokens (B,), int64, at
                   TEMPERATURE, of the TOP_K most probable, of which the first to reach TOP_P
    """

    name: str
    softmax: Callable[[Tensor, float], Tensor]
    attention: Callable[[Tensor, Tensor, Tensor], Tensor]
    cross_entropy: Callable[[Tensor, Tensor], Tensor]
    sample: Callable[[Tensor, Generator | None], Tensor]


def _torch_softmax(scores: Tensor, scale: float) -> Tensor:
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    return torch.softmax((scores * scale).masked_fill(~seen, -math.inf), -1)


def _torch_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def _torch_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    # In float32, as autocast has it: 16-bit losses would be off by a per cent.
    return functional.cross_entropy(logits.flatten(0, -2).float(), targets.flatten())


def _torch_sample(logits: Tensor, generator: Generator | None) -> Tensor:
    # Top-k first: what is sorted and summed then is 50 wide.
    values, tokens = torch.topk(logits, TOP_K)
    p = torch.softmax(values.float() / TEMPERATURE, -1)
    p = p.masked_fill(p.cumsum(-1) - p >= TOP_P * p.sum(-1, keepdim=True), 0.0)
    return tokens.gather(-1, torch.multinomial(p, 1, generator=generator)).squeeze(-1)


def _our_softmax(scores: Tensor, scale: float) -> Tensor:
    return kernels.softmax(scores, scale=scale, is_causal=True)


def _our_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return kernels.attention(query, key, value, is_causal=True)


def _our_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    loss: Any = kernels.cross_entropy(logits, targets, inplace=True)
    return loss


def _our_sample(logits: Tensor, generator: Generator | None) -> Tensor:
    return kernels.sample(
        logits, temperature=TEMPERATURE, top_k=TOP_K, top_p=TOP_P, generator=generator
    )


TORCH = Operators("torch", _torch_softmax, _torch_attention, _torch_cross_entropy, _torch_sample)
OURS = Operators("ours", _our_softmax, _our_attention, _our_cross_entropy, _our_sample)
NAMES = ("torch", "compiled", "ours")


def compiled() -> Operators:
    """Torch's, of which torch.compile takes those that training needs."""
    return replace(
        TORCH,
        name="compiled",
        softmax=torch.compile(_torch_softmax, dynamic=False),
        cross_entropy=torch.compile(_torch_cross_entropy, dynamic=False),
    )
