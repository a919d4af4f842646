"""``sample``: a token of each row as its probability has it, and the operator behind it."""

from __future__ import annotations

import struct

import torch
from torch import Tensor

from kernels import ops, sampling_torch
from kernels.arguments import check_int, check_number, check_tensor, told
from kernels.frontier import choice
from kernels.frontier.rows import as_rows

torch.library.define(
    "roofline::sample",
    "(Tensor logits, float temperature, SymInt? top_k, float top_p, SymInt seed, SymInt offset) "
    "-> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
# The same from numbers that lie in memory of the CPU, so that a graph takes them as they come.
torch.library.define(
    "roofline::sample.tensors",
    "(Tensor logits, Tensor temperature, SymInt? top_k, Tensor top_p, Tensor seed, SymInt offset) "
    "-> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
operator = torch.ops.roofline.sample.default
operator_of_tensors = torch.ops.roofline.sample.tensors
MOST_SEED = 2**63 - 1  # that is drawn
# float32 rounds the inverse of a temperature to 0 up to the first, to infinity from the second on.
LEAST, MOST = 2.0**-150, 2.0**128 - 2.0**103


def sample(
    logits: Tensor, *, temperature: float = 1.0, top_k: int | None = None,
    top_p: float | None = None, generator: torch.Generator | None = None, seed: int | None = None,
    offset: int = 0,
) -> Tensor:  # fmt: skip
    """A token of each row of ``logits`` (M, N), with the probabilities of softmax(logits / T).

    Gives ids (M,), int64. For one temperature, top_k and top_p the id of a row depends on ``seed``,
    ``offset``, the row's number and its logits alone: neither on the other rows, nor on how a row
    is split, nor on the device. The
    column's random number is that of Philox4x32-10 for (column, row, offset) under the key seed,
    and the id is the column with the largest sum of logit / T and Gumbel noise (of equals the
    first).

    temperature  T > 0
    top_k        the k most probable tokens are kept, 1 <= k <= N
    top_p        of these the fewest most probable ones are kept whose probabilities add up to
                 top_p of the sum of all these; 0 < top_p <= 1. Sums are of integers: a token
                 counts for its probability relative to the most probable one's, rounded down to
                 a multiple of 2^-40 (from 2^22 columns on of a larger power of two). Of tokens
                 with equal logits those with lower ids are kept, in top-k too
    generator    where the seed comes from if none is given; None is torch's own on the CPU. One on
                 a GPU gives its own seed, and its offset, which grows by 4, is added to ``offset``
    seed         of 64 bits
    offset       of 64 bits: another one for each call with the same seed

    A token with -inf is never chosen; in a row of nothing else it is 0. A row with NaN gives the
    first NaN's column, a row with +inf the first +inf's, as torch.argmax. A CUDA graph keeps the
    seed and the offset with which it was captured: replays give the same ids for the same logits.
    Under torch.compile all numbers may change from call to call without another graph, but for
    a generator, which is refused; a seed that is not given is drawn in the graph, from torch's
    generator on the CPU, or from what the compiler has in its place. torch.vmap gives each batch
    what it would get alone, by the same noise, whatever its randomness; without a seed it cannot.

    float16, bfloat16 and float32 go through this project's kernels on CUDA, everything else
    through torch; other dtypes are rounded to float32.

    Raises TypeError for what is no floating-point tensor and for arguments of other types,
    ValueError for another shape and for numbers out of their range, NotImplementedError for a
    generator under torch.compile.

    Moves M N elements, so as many times their size in bytes, and 8 bytes a row, also with a top-k
    of at most 128; with top-p alone twice that, and again of rows that its first look does not
    settle; with a larger top-k once a pass, from the L2 where it holds the rows. torch sorts each.
    """
    _checked(logits, temperature, top_k, top_p)
    _check_chance(generator, seed, offset)
    kept = 1.0 if top_p is None else top_p
    if torch.compiler.is_compiling():
        return _traced(logits, temperature, top_k, kept, seed, offset)
    _check_values(temperature, kept)
    if seed is None:
        seed, offset = _drawn(generator, int(offset))
    return operator(
        logits, float(temperature), None if top_k is None else int(top_k), float(kept),
        _of_64_bits(int(seed)), _of_64_bits(int(offset)),
    )  # fmt: skip


def _checked(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float | None
) -> None:  # fmt: skip
    """Raise an error that says what is wrong with the logits or what is kept of them."""
    check_tensor("sample", "logits", logits)
    if not logits.is_floating_point():
        raise TypeError(
            f"sample expects a floating-point tensor; got {logits.dtype}: pass logits.float()"
        )
    if logits.dim() != 2 or logits.shape[1] == 0:
        raise ValueError(
            f"sample expects rows of at least one logit, (M, N); got shape {tuple(logits.shape)}"
        )
    check_number("sample", "temperature", temperature)
    if top_k is not None:
        check_int("sample", "top_k", top_k)
        if not 1 <= top_k <= logits.shape[1]:
            raise ValueError(
                f"sample expects top_k from 1 to the {logits.shape[1]} columns; got {told(top_k)}"
            )
    if top_p is not None:
        check_number("sample", "top_p", top_p)


def _check_values(temperature: float, top_p: float) -> None:
    if not temperature > 0:
        raise ValueError(
            f"sample expects a temperature above 0; got {temperature}: for 0 use logits.argmax(-1)"
        )
    if not LEAST < 1 / temperature < MOST:
        raise ValueError(
            f"sample expects a temperature whose inverse float32 holds; got {told(temperature)}"
        )
    if not 0 < top_p <= 1:
        raise ValueError(f"sample expects top_p above 0 and at most 1; got {told(top_p)}")


def _check_chance(generator: torch.Generator | None, seed: int | None, offset: int) -> None:
    for name, given in (("seed", 0 if seed is None else seed), ("offset", offset)):
        check_int("sample", name, given)
        if not -(2**63) <= given < 2**64:
            raise ValueError(f"sample expects 64 bits for {name}; got {told(given)}")
    if generator is None:
        return
    if seed is not None:
        raise ValueError("sample expects a seed or a generator; got both: pass only one")
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"sample expects a torch.Generator for generator; got {told(generator)}: make one, or "
            "pass a seed"
        )
    if generator.device.type not in ("cpu", "cuda"):
        raise ValueError(
            f"sample expects a generator of the CPU or of a CUDA GPU; got {generator.device}"
        )
    if torch.compiler.is_compiling():
        raise NotImplementedError(
            "sample takes no generator where a graph is compiled: leave it out, for torch's own, "
            "or draw a seed from it outside"
        )


def _traced(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float, seed: int | None,
    offset: int,
) -> Tensor:  # fmt: skip
    """The call as a graph keeps it, whatever the numbers will be: it draws the seed by itself."""
    one = torch.ones((), dtype=torch.float64, device="cpu")  # of products alone a number may change
    if seed is None:
        drawn = torch.randint(MOST_SEED, (), device="cpu")
    else:
        drawn = torch.scalar_tensor(_of_64_bits(seed), dtype=torch.int64, device="cpu")
    return operator_of_tensors(
        logits, one * temperature, top_k, one * top_p, drawn, _of_64_bits(offset)
    )


def _drawn(generator: torch.Generator | None, offset: int) -> tuple[int, int]:
    if generator is not None and generator.device.type == "cuda":
        at = generator.get_offset()
        generator.set_offset(at + 4)  # offsets of torch's own are multiples of 4
        return generator.initial_seed(), (at + offset) % 2**64
    return int(torch.randint(MOST_SEED, (), generator=generator, device="cpu")), offset


def _of_64_bits(value: int) -> int:
    """As an int64 with the same bits."""
    return value - 2**64 if value >= 2**63 else value


def _inverse(temperature: float) -> float:
    """1 / temperature as a float32, which multiplies logits on every device."""
    (inverse,) = struct.unpack("=f", struct.pack("=f", 1 / temperature))
    return inverse


def _cuda(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float, seed: int, offset: int
) -> Tensor:
    if not ops.serves(logits, -1, torch.float32):
        return _torch(logits, temperature, top_k, top_p, seed, offset)
    x = logits if logits.dtype in choice.NAMES else logits.float()
    x = x if as_rows(x.shape, x.stride()) else x.contiguous()
    out = _fake(x, temperature, top_k, top_p, seed, offset)
    choice.sample(x, choice.Chance(seed, offset, _inverse(temperature), top_k, top_p), out)
    return out


def _torch(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float, seed: int, offset: int
) -> Tensor:
    return sampling_torch.sample(logits, _inverse(temperature), top_k, top_p, seed, offset)


def _fake(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float, seed: int, offset: int
) -> Tensor:
    return logits.new_empty(logits.shape[0], dtype=torch.int64)


def _of_tensors(
    logits: Tensor, temperature: Tensor, top_k: int | None, top_p: Tensor, seed: Tensor, offset: int
) -> Tensor:
    values = float(temperature), float(top_p)
    _check_values(*values)  # which a graph does not know when it is made
    return operator(logits, values[0], top_k, values[1], int(seed), offset)


def _fake_of_tensors(logits: Tensor, *_: object) -> Tensor:
    return logits.new_empty(logits.shape[0], dtype=torch.int64)


torch.library.impl("roofline::sample", "cuda", _cuda)
torch.library.impl("roofline::sample", "cpu", _torch)
torch.library.register_fake("roofline::sample", _fake)
for _device in ("cuda", "cpu"):
    torch.library.impl("roofline::sample.tensors", _device, _of_tensors)
torch.library.register_fake("roofline::sample.tensors", _fake_of_tensors)
