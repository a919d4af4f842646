"""What several operators are compared with: copies, this project's plain softmax, torch.compile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kernels
from experiments.family import exact
from experiments.family.later import launch, torch
from experiments.family.operator import PLAIN, Call, Case, Error, Implementation, Refused
from kernels.registry import VARIANTS

if TYPE_CHECKING:
    from typing import Any

    from torch import Tensor

# torch's copy and the driver's: the faster of them in a block is the ceiling there.
COPIES = {v.name: v.graph for v in VARIANTS if v.ceiling}
COMPILED = "torch_compile"


def _twice(case: Case) -> int:
    return 2 * case.tensor_bytes


def copies(to: int | None = None) -> tuple[Implementation, ...]:
    """Copies of an operator's first tensor, to its tensor number ``to``, or into new memory."""

    def implementation(name: str) -> Implementation:
        def prepare(case: Case, device: str) -> Call:
            if device == "cpu" and not COPIES[name]:
                raise Refused("it copies on a GPU")
            copy = launch.load(name)

            def call(*tensors: Tensor) -> Tensor:
                x = tensors[0]
                out = torch.empty_like(x) if to is None else tensors[to]
                copy(exact.flat(x), exact.flat(out))
                return out

            return call

        return Implementation(name, prepare, graph=COPIES[name], n_bytes=_twice, error=_copy_error)

    return tuple(implementation(name) for name in COPIES)


def _copy_error(case: Case, tensors: tuple[Tensor, ...], result: Any) -> Error:
    return exact.equal_bits(tensors[0], result)


def _plain_error(case: Case, tensors: tuple[Tensor, ...], result: Any) -> Error:
    return exact.softmax_error(case, tensors[0], result)


def _plain(case: Case, device: str) -> Call:
    return lambda x, *_: kernels.softmax(x)


# A softmax of the same shape, of which nothing more is asked.
PLAIN_SOFTMAX = Implementation(PLAIN, _plain, n_bytes=_twice, error=_plain_error)


def compiled(function: Call, case: Case, device: str) -> Call:
    """``function`` by torch.compile, with static shapes.  Raises Refused.

    It calls methods of tensors: the compiler does not follow a module that is imported later.
    """
    if device == "cpu":
        raise Refused("torch.compile is timed on a GPU")
    if case.dtype == "float32":
        raise Refused("torch.compile is timed in 16 bits: each shape compiles for seconds")
    launch.load(COMPILED)  # it raises torch's limits on recompilation
    return torch.compile(function, dynamic=False, fullgraph=True)
