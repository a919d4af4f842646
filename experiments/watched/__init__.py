"""What runs under Compute Sanitizer beside the regimes of the softmax: one file an operator."""

from collections.abc import Callable, Iterator, Mapping

from experiments.launches import Gpu
from experiments.watched import backward, choice, columns, cross_entropy, rows
from experiments.watched.case import Case

# By the names of the operators that are measured (experiments/family).
OPERATORS: Mapping[str, Callable[[Gpu], Iterator[Case]]] = {
    "factors": rows.factors,
    "masks": rows.masks,
    "columns": columns.cases,
    "backward": backward.cases,
    "cross_entropy": cross_entropy.cases,
    "topk_softmax": choice.top,
    "sample": choice.samples,
}

__all__ = ["OPERATORS", "Case"]
