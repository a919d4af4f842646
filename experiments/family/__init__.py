"""The operators beside the plain softmax: one file a question, one line here."""

from collections.abc import Mapping

from experiments.family import (
    attention,
    backward,
    calls,
    columns,
    cross_entropy,
    factors,
    masks,
    sample,
    topk_softmax,
)
from experiments.family.operator import Operator

OPERATORS: Mapping[str, Operator] = {
    "factors": factors.OPERATOR,
    "masks": masks.OPERATOR,
    "columns": columns.OPERATOR,
    "backward": backward.OPERATOR,
    "cross_entropy": cross_entropy.OPERATOR,
    "topk_softmax": topk_softmax.OPERATOR,
    "sample": sample.OPERATOR,
    "attention": attention.OPERATOR,
    "calls": calls.OPERATOR,
}

__all__ = ["OPERATORS", "Operator", "operator_of"]


def operator_of(name: str) -> Operator:
    """The operator called ``name``; a KeyError that lists the known names otherwise."""
    if name not in OPERATORS:
        raise KeyError(f"unknown operator '{name}'; known: {', '.join(OPERATORS)}")
    return OPERATORS[name]
