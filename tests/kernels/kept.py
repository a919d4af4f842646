"""The distribution that sampled tokens shall have, and whether some have it."""

import torch
from torch import Tensor


def kept(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """Probabilities (N,) of ``logits`` (N,), in float64; 0 of what top_k and top_p leave out."""
    p = torch.softmax(logits.double() / temperature, -1)
    order = p.argsort(descending=True, stable=True)[:top_k]
    mass = p[order].cumsum(0)
    # The fewest of these tokens that have a share of top_p.
    order = order[: int((mass < (top_p or 1.0) * mass[-1]).sum()) + 1]
    p = torch.zeros_like(p).index_copy(0, order, p[order])
    return p / p.sum()


def p_value(ids: Tensor, p: Tensor) -> float:
    """How often a chi-square statistic is at least that of ``ids``, if ``p`` (N,) is theirs.

    Tokens that are expected five times at least count each, and all others together.
    """
    seen, expected = torch.bincount(ids, minlength=len(p)).double(), p * len(ids)
    assert bool((seen[p == 0] == 0).all())
    often = expected >= 5
    rest = torch.stack([seen[~often].sum(), expected[~often].sum()])[:, None]
    both = torch.cat([torch.stack([seen[often], expected[often]]), rest], 1)
    both = both[:, both[1] > 0]
    if both.shape[1] == 1:  # a token alone is always chosen
        return 1.0
    statistic = ((both[0] - both[1]) ** 2 / both[1]).sum()
    half = torch.tensor((both.shape[1] - 1) / 2, dtype=torch.float64, device=p.device)
    return float(torch.special.gammaincc(half, statistic / 2))
