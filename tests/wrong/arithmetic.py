"""Mistakes in what is computed: the maximum, the sum, the exponential, special values."""

import torch
from torch import Tensor

LOG2_E = 1.4426950408889634
MOST = torch.finfo(torch.float32).max


def no_maximum(x: Tensor, out: Tensor) -> Tensor:
    """exp(x) itself: right until it overflows."""
    numerator = x.float().exp()
    return out.copy_(numerator / numerator.sum(dim=1, keepdim=True))


def not_normalised(x: Tensor, out: Tensor) -> Tensor:
    """The division is missing."""
    return out.copy_(_numerator(x))


def half_the_sum(x: Tensor, out: Tensor) -> Tensor:
    """The reduction forgets its last step: one half of the partial sums."""
    numerator = _numerator(x)
    return out.copy_(numerator / numerator[:, : -(-x.shape[1] // 2)].sum(dim=1, keepdim=True))


def stale_statistics(x: Tensor, out: Tensor) -> Tensor:
    """A row is normalised with the sum that the row before left behind."""
    numerator = _numerator(x)
    return out.copy_(numerator / numerator.sum(dim=1, keepdim=True).roll(1, dims=0))


def half_precision_sum(x: Tensor, out: Tensor) -> Tensor:
    """The sum runs in float16, column by column, and stands still once its steps are too coarse."""
    return out.copy_(_numerator(x) / _running_sum(_numerator(x).half()).float())


def input_precision_sum(x: Tensor, out: Tensor) -> Tensor:
    """The sum runs in the type of the input, which 16 bits do not carry."""
    return out.copy_(_numerator(x) / _running_sum(_numerator(x).to(x.dtype)).float())


def sloppy_exponential(x: Tensor, out: Tensor) -> Tensor:
    """An exponential good to a part in two thousand, for which float32 is no excuse."""
    numerator = _numerator(x)
    numerator *= 1 + 5e-4 * torch.sin(10 * x.float())
    return out.copy_(numerator / numerator.sum(dim=1, keepdim=True))


def contracted_shift(x: Tensor, out: Tensor) -> Tensor:
    """exp2(x log2 e - max log2 e): two large numbers, each rounded, then subtracted."""
    scaled = x.float() * LOG2_E
    numerator = torch.exp2(scaled - scaled.amax(dim=1, keepdim=True))
    return out.copy_(numerator / numerator.sum(dim=1, keepdim=True))


def small_floor(x: Tensor, out: Tensor) -> Tensor:
    """Adds a millionth to every output, against a division by zero that cannot come."""
    return out.copy_(torch.softmax(x.float(), dim=1) + 1e-6)


def finite_minus_infinity(x: Tensor, out: Tensor) -> Tensor:
    """-FLT_MAX stands for -inf: a row of nothing but -inf becomes uniform."""
    return out.copy_(torch.softmax(x.float().clamp_min(-MOST), dim=1))


def zeros_for_nan(x: Tensor, out: Tensor) -> Tensor:
    """A guarded division: rows that have no softmax become zeros."""
    return out.copy_(torch.softmax(x.float(), dim=1).nan_to_num(0.0))


def dropped_nan(x: Tensor, out: Tensor) -> Tensor:
    """Maximum and sum both skip NaN; only the NaN column shows it."""
    numerator = (x.float() - x.float().nan_to_num(-MOST, MOST, -MOST).amax(1, keepdim=True)).exp()
    return out.copy_(numerator / numerator.nansum(dim=1, keepdim=True))


def reads_what_it_wrote(x: Tensor, out: Tensor) -> Tensor:
    """Parks exp(x - max) in the output and reads the input again: not in place."""
    peak = x.float().amax(dim=1, keepdim=True)
    out.copy_(_numerator(x))
    total = (x.float() - peak).exp().sum(dim=1, keepdim=True)
    return out.copy_(out.float() / total)


def empty_partials(x: Tensor, out: Tensor) -> Tensor:
    """64 lanes merge (maximum, sum) pairs; two lanes without a column give exp(-inf + inf)."""
    lanes = 64
    cols = x.shape[1]
    wide = torch.nn.functional.pad(x.float(), (0, -cols % lanes), value=-torch.inf)
    wide = wide.reshape(x.shape[0], -1, lanes)
    peak = wide.amax(dim=1)
    total = torch.where(wide > -torch.inf, (wide - peak[:, None]).exp(), 0.0).sum(dim=1)
    while lanes > 1:
        lanes //= 2
        higher = torch.maximum(peak[:, :lanes], peak[:, lanes:])
        total = (
            total[:, :lanes] * (peak[:, :lanes] - higher).exp()
            + total[:, lanes:] * (peak[:, lanes:] - higher).exp()
        )
        peak = higher
    return out.copy_((x.float() - peak).exp() / total)


def odd_tree(x: Tensor, out: Tensor, threads: int = 384) -> Tensor:
    """A tree over 384 partial sums halves to three and leaves the third out (S4)."""
    numerator = _numerator(x)
    wide = torch.nn.functional.pad(numerator, (0, -x.shape[1] % threads))
    shared = wide.reshape(x.shape[0], -1, threads).sum(dim=1)
    offset = threads // 2
    while offset:
        shared[:, :offset] += shared[:, offset : 2 * offset]
        offset //= 2
    return out.copy_(numerator / shared[:, :1])


def _numerator(x: Tensor) -> Tensor:
    return (x.float() - x.float().amax(dim=1, keepdim=True)).exp()


def _running_sum(numerator: Tensor) -> Tensor:
    total = torch.zeros_like(numerator[:, :1])
    for column in numerator.split(1, dim=1):
        total += column
    return total
