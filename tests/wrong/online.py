"""Mistakes of the online form (S5), step by step as its block goes: pairs of nothing but -inf."""

import torch
from torch import Tensor

INF = float("inf")
LANES = 32


def masked_start(x: Tensor, out: Tensor, guarded: bool = False) -> Tensor:
    """A thread whose columns start with -inf computes exp(-inf + inf), and its row is NaN."""
    return _softmax(x, out, warps=32, guarded_columns=guarded, guarded_merges=True)


def short_block(x: Tensor, out: Tensor, warps: int = 8, guarded: bool = False) -> Tensor:
    """Eight warps leave 24 lanes of the last reduction empty, and two such lanes give NaN."""
    return _softmax(x, out, warps, guarded_columns=True, guarded_merges=guarded)


def _softmax(
    x: Tensor, out: Tensor, warps: int, guarded_columns: bool, guarded_merges: bool
) -> Tensor:
    rows, threads = x.shape[0], LANES * warps
    peak = x.new_full((rows, threads), -INF, dtype=torch.float32)
    total = torch.zeros_like(peak)
    for tile in x.float().split(threads, dim=1):
        n = tile.shape[1]  # the last tile may be short: the other threads have no column in it
        one = torch.ones_like(tile)
        peak[:, :n], total[:, :n] = _merge(peak[:, :n], total[:, :n], tile, one, guarded_columns)

    peaks = x.new_full((rows, LANES), -INF, dtype=torch.float32)
    totals = torch.zeros_like(peaks)
    by_warp = peak.reshape(rows, warps, LANES), total.reshape(rows, warps, LANES)
    peaks[:, :warps], totals[:, :warps] = _butterfly(*by_warp, guarded_merges)
    peak, total = _butterfly(peaks, totals, guarded_merges)
    return out.copy_((x.float() - peak[:, None]).exp() / total[:, None])


def _butterfly(peak: Tensor, total: Tensor, guarded: bool) -> tuple[Tensor, Tensor]:
    """What lane 0 of 32 holds after five exchanges, lane i with lane i xor 16, 8, 4, 2, 1."""
    lane = torch.arange(LANES, device=peak.device)
    for mask in (16, 8, 4, 2, 1):
        other = lane ^ mask
        peak, total = _merge(peak, total, peak[..., other], total[..., other], guarded)
    return peak[..., 0], total[..., 0]


def _merge(
    peak: Tensor, total: Tensor, other_peak: Tensor, other_total: Tensor, guarded: bool
) -> tuple[Tensor, Tensor]:
    higher = torch.fmax(peak, other_peak)
    shift = torch.where(higher == -INF, 0.0, higher) if guarded else higher
    return higher, total * (peak - shift).exp() + other_total * (other_peak - shift).exp()
