"""A transformer of a few thousand numbers, and operators with one mistake each."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from experiments.transformer.model import Size, Transformer
from experiments.transformer.operators import OURS, TORCH, Operators
from experiments.transformer.plan import Plan

SIZE = Size(layers=2, heads=2, width=16, context=12, vocabulary=64)
PLAN = Plan(
    SIZE, batch=4, steps=8, warm_up=2, seeds=(1, 2), batches=(1, 3), prompt=5, generated=4,
    repeats=2, generations=2, learning_rate=0.03, longest_gradient=1.5,
)  # fmt: skip
TEXT = torch.randint(64, (200,), generator=torch.Generator().manual_seed(5))
SETS = (TORCH, OURS)


def model(seed: int = 0) -> Transformer:
    """With weights of float32 that are not near 0, so that a wrong operator shows."""
    torch.manual_seed(seed)
    made = Transformer(SIZE)
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(8.0 if weight.dim() > 1 else 1.0)
    return made


def _sees_the_future(scores: Tensor, scale: float) -> Tensor:
    return torch.softmax(scores * scale, -1)


def _forgets_the_scale(scores: Tensor, scale: float) -> Tensor:
    return TORCH.softmax(scores, 1.0)


def _half_the_gradient(logits: Tensor, targets: Tensor) -> Tensor:
    loss = TORCH.cross_entropy(logits, targets)
    return loss / 2 + loss.detach() / 2


def _sum(logits: Tensor, targets: Tensor) -> Tensor:
    return TORCH.cross_entropy(logits, targets) * targets.numel()


def _unmasked(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return torch.softmax(scores, -1) @ value


def _any(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    rows, cols = logits.shape
    return torch.randint(cols, (rows,), generator=generator)


def _greedy(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    return logits.argmax(-1)


# By the operator that is wrong.
WRONG: list[tuple[str, Operators]] = [
    ("softmax", replace(TORCH, softmax=_sees_the_future)),
    ("softmax", replace(TORCH, softmax=_forgets_the_scale)),
    ("attention", replace(TORCH, attention=_unmasked)),
    ("cross_entropy", replace(TORCH, cross_entropy=_half_the_gradient)),
    ("cross_entropy", replace(TORCH, cross_entropy=_sum)),
    ("sample", replace(TORCH, sample=_any)),
    ("sample", replace(TORCH, sample=_greedy)),
]
