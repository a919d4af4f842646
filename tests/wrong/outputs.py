"""Mistakes in what is written: constants, unwritten parts, the wrong row."""

import torch
from torch import Tensor


def nothing(x: Tensor, out: Tensor) -> Tensor:
    """A launch that failed and that nobody asked about."""
    return out


def zeros(x: Tensor, out: Tensor) -> Tensor:
    """Within any absolute tolerance of a wide softmax."""
    return out.zero_()


def uniform(x: Tensor, out: Tensor) -> Tensor:
    """1/N everywhere: the sums are right, and nearly every value of a wide row is close."""
    return out.fill_(1 / x.shape[1])


def half_a_row(x: Tensor, out: Tensor) -> Tensor:
    """The grid covers half of the columns; the rest keeps what it was."""
    half = -(-x.shape[1] // 2)
    out[:, :half] = torch.softmax(x, dim=1)[:, :half]
    return out


def dropped_tail(x: Tensor, out: Tensor, width: int = 4) -> Tensor:
    """4-wide loads and stores of whole vectors only: up to three columns are neither."""
    whole = x.shape[1] // width * width
    out[:, :whole] = torch.softmax(x[:, :whole], dim=1)
    return out


def next_row(x: Tensor, out: Tensor) -> Tensor:
    """Each row's softmax stands one row too far up."""
    return out.copy_(torch.softmax(x, dim=1).roll(-1, dims=0))


def by_columns(x: Tensor, out: Tensor) -> Tensor:
    """The softmax over the other dimension."""
    return out.copy_(torch.softmax(x, dim=0))


def assumed_contiguous(x: Tensor, out: Tensor) -> Tensor:
    """Rows start at row * cols, whatever the stride."""
    rows, cols = x.shape
    packed = x.as_strided((rows, cols), (cols, 1), x.storage_offset())
    return out.copy_(torch.softmax(packed, dim=1))


def narrow_offsets(x: Tensor, out: Tensor, bits: int = 15) -> Tensor:
    """row * stride wraps past 16,383 elements, as 32 bits do past 2^31 - 1 (S1 to S5)."""

    def starts(t: Tensor) -> Tensor:
        rows = torch.arange(t.shape[0], device=t.device)
        return t.storage_offset() + (rows * t.stride(0) + reach) % (2 * reach) - reach

    reach = 2 ** (bits - 1)
    cols = torch.arange(x.shape[1], device=x.device)
    return _moved(x, out, starts(x)[:, None] + cols, starts(out)[:, None] + cols)


def misaligned_vectors(x: Tensor, out: Tensor, width: int = 4) -> Tensor:
    """16-byte accesses at addresses rounded down to 16 bytes; a GPU faults instead (S4)."""
    cols = torch.arange(x.shape[1], device=x.device)

    def addresses(t: Tensor) -> Tensor:
        rows = torch.arange(t.shape[0], device=t.device)
        start = (t.storage_offset() + rows * t.stride(0))[:, None]
        return torch.where(cols < len(cols) // width * width, start // width * width, start) + cols

    return _moved(x, out, addresses(x), addresses(out))


def _moved(x: Tensor, out: Tensor, read: Tensor, write: Tensor) -> Tensor:
    """Softmax of what lies at elements ``read`` (rows, cols) of x's memory, to ``write`` of out's.

    Outside of the memory zeros are read, and what is written is lost.
    """
    memory, target = _memory(x), _memory(out)
    inside = (read >= 0) & (read < len(memory))
    seen = torch.where(inside, memory[read.clamp(0, len(memory) - 1)], 0)
    reached = (write >= 0) & (write < len(target))
    target[write[reached]] = torch.softmax(seen.float(), dim=1)[reached].to(out.dtype)
    return out


def _memory(t: Tensor) -> Tensor:
    """All elements of the storage that ``t`` is a part of."""
    return t.as_strided((t.untyped_storage().nbytes() // t.element_size(),), (1,), 0)


def logarithm(x: Tensor, out: Tensor) -> Tensor:
    """The function next to it in the manual."""
    return out.copy_(torch.log_softmax(x, dim=1))
