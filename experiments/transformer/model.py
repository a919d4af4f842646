"""A decoder-only transformer in plain PyTorch: pre-norm, causal, the head tied to the embedding.

Weights and operators are apart: one model runs with any Operators.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.transformer.operators import Operators


@dataclass(frozen=True)
class Size:
    """Of a transformer; ``width`` is divided among ``heads``, ``context`` is in tokens."""

    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int


class Attention(nn.Module):
    """Causal self-attention of (B, S, width)."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.inputs = nn.Linear(size.width, 3 * size.width, bias=False)
        self.output = nn.Linear(size.width, size.width, bias=False)

    def forward(self, x: Tensor, operators: Operators) -> Tensor:
        three = self.inputs(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = three.permute(2, 0, 3, 1, 4).unbind()
        if torch.is_grad_enabled():
            scores = query @ key.transpose(-2, -1)
            # Autocast would take the scores to float32 and the weights back, each by a copy: either
            # softmax computes in float32 anyway, and rounds once.
            with torch.autocast(x.device.type, enabled=False):
                weights = operators.softmax(scores, 1 / math.sqrt(query.shape[-1]))
            y = weights @ value
        else:
            y = operators.attention(query, key, value)
        return self.output(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention, then two layers with four times the width between them; each after a norm."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(size.width, bias=False)
        self.attention = Attention(size)
        self.before_layers = nn.LayerNorm(size.width, bias=False)
        self.layers = nn.Sequential(
            nn.Linear(size.width, 4 * size.width, bias=False),
            nn.GELU(),
            nn.Linear(4 * size.width, size.width, bias=False),
        )

    def forward(self, x: Tensor, operators: Operators) -> Tensor:
        x = x + self.attention(self.before_attention(x), operators)
        return x + self.layers(self.before_layers(x))


class Transformer(nn.Module):
    """Tokens (B, S) in, logits (B, S, vocabulary) out."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        if size.width % size.heads:
            raise ValueError(
                f"a transformer's width is divided among its heads; got {size.width} and "
                f"{size.heads}"
            )
        self.size = size
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.places = nn.Embedding(size.context, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width, bias=False)
        self.apply(_initialise)

    def forward(self, tokens: Tensor, operators: Operators, last: bool = False) -> Tensor:
        """The logits of what follows each token, or the ``last`` one alone, then (B, vocabulary).

        Raises ValueError for more tokens than the context has.
        """
        length = tokens.shape[-1]
        if length > self.size.context:
            raise ValueError(
                f"the transformer reads at most {self.size.context} tokens; got {length}: leave "
                "the first ones away"
            )
        x = self.tokens(tokens) + self.places.weight[:length]
        for block in self.blocks:
            x = block(x, operators)
        x = self.norm(x[:, -1] if last else x)
        return functional.linear(x, self.tokens.weight)

    def parameter_count(self) -> int:
        """Numbers that are learnt."""
        return sum(p.numel() for p in self.parameters())


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
