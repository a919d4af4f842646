"""Is a set of operators what it says?  Against float64, before anything is trained with it."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from experiments.check import TOLERANCE
from experiments.transformer.chance import TEMPERATURE, TOP_K, TOP_P
from experiments.transformer.operators import Operators

ROWS, COLS, DIM = 96, 4096, 64
# Of sums of many rounded products, in units of the dtype's own tolerance.
OF_SUMS = 4.0
# A probability of 2^-13 of the sum: where two thresholds of top-p may fall apart by rounding.
EDGE = 2.0**-13


class WrongOperator(RuntimeError):
    """An operator does not compute what it should; the message says which, and by how much."""


def check(operators: Operators, device: str, dtype: torch.dtype) -> None:
    """Raise WrongOperator unless all of ``operators`` agree with float64 on ``dtype`` input."""
    generator = torch.Generator(device).manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=device).to(dtype)

    scores, weight = normal(1, 2, ROWS, ROWS) * 4, normal(1, 2, ROWS, ROWS)
    _agree(operators, "softmax", dtype, *_with_gradient(operators, scores, weight))
    some = normal(1, 2, ROWS, DIM), normal(1, 2, ROWS, DIM), normal(1, 2, ROWS, DIM)
    with torch.no_grad():
        found = operators.attention(*some)
        query, key, value = (t.double() for t in some)
        wanted = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    _agree(operators, "attention", dtype, [found], [wanted])
    logits = normal(2, ROWS, COLS) * 2
    targets = torch.randint(COLS, (2, ROWS), generator=generator, device=device)
    _agree(operators, "cross_entropy", dtype, *_losses(operators, logits, targets))
    with torch.no_grad():
        _check_sample(operators, logits[0], generator)


def _with_gradient(
    operators: Operators, scores: Tensor, weight: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """Weights and the gradient of their sum times ``weight``: found, and of float64."""
    x = scores.clone().requires_grad_()
    y = operators.softmax(x, 0.125)
    (grad,) = torch.autograd.grad((y * weight).sum(), x)
    wide = scores.double().requires_grad_()
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    wanted = torch.softmax((wide * 0.125).masked_fill(~seen, -math.inf), -1)
    (slope,) = torch.autograd.grad((wanted * weight.double()).sum(), wide)
    return [y.detach(), grad], [wanted.detach(), slope]


def _losses(
    operators: Operators, logits: Tensor, targets: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """The loss and its gradient: found, and of float64."""
    x = logits.clone().requires_grad_()
    loss = operators.cross_entropy(x * 1.0, targets)  # no leaf: it may be overwritten
    (grad,) = torch.autograd.grad(loss, x)
    wide = logits.double().requires_grad_()
    wanted = functional.cross_entropy(wide.flatten(0, 1), targets.flatten())
    (slope,) = torch.autograd.grad(wanted, wide)
    return [loss.detach(), grad], [wanted.detach(), slope]


def _agree(
    operators: Operators, what: str, dtype: torch.dtype, found: list[Tensor], wanted: list[Tensor]
) -> None:
    """Errors are relative to the largest number: gradients and weights pass through 0."""
    most = OF_SUMS * TOLERANCE[dtype][0]
    for part, mine, right in zip(("its result", "its gradient"), found, wanted, strict=False):
        error = float((mine.double() - right).abs().max() / right.abs().max())
        if not error <= most:
            raise WrongOperator(
                f"{what} of '{operators.name}' is wrong: {part} is off by {error:.2g} of the "
                f"largest number, at most {most:.2g} is expected in {dtype}"
            )


def _check_sample(operators: Operators, logits: Tensor, generator: torch.Generator) -> None:
    """No token that is not kept is chosen; and not always the most probable one."""
    p, order = torch.softmax(logits.double() / TEMPERATURE, -1).sort(-1, descending=True)
    p = p[:, :TOP_K] / p[:, :TOP_K].sum(-1, keepdim=True)
    count = (p.cumsum(-1) - p < TOP_P + EDGE).sum(-1)
    least = logits.gather(-1, order).gather(-1, count[:, None] - 1)
    chosen = torch.stack([operators.sample(logits, generator) for _ in range(8)], -1)
    values = logits.gather(-1, chosen)
    outside = int((values < least).any(-1).sum())
    if outside or bool((values == logits.amax(-1, keepdim=True)).all()):
        what = f"{outside} of {len(logits)} rows" if outside else "the most probable one alone"
        raise WrongOperator(
            f"sample of '{operators.name}' is wrong: of top-{TOP_K} and top-p {TOP_P}, it chose "
            + (f"a token that is not kept in {what}" if outside else what)
        )
