"""What a Triton variant tells the ahead-of-time build about itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernels.registry import DTYPES


@dataclass(frozen=True)
class Specialisation:
    """One compilation of a Triton kernel, for every dtype of its variant that ``dtypes`` has.

    ``cols_held`` is the number of columns a program keeps on chip, 0 where it streams.
    ``types`` are those of arguments that are neither a tensor's memory nor 32-bit integers, and
    ``options`` Triton's beside ``num_warps``.  ``plain``: the kernel asks not to be told which
    arguments are multiples of 16.
    """

    kernel: Any
    constants: Mapping[str, int] = field(default_factory=dict)
    num_warps: int = 4
    cols_held: int = 0
    dtypes: tuple[str, ...] = DTYPES
    types: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, int] = field(default_factory=dict)
    plain: bool = False

    @property
    def label(self) -> str:
        values = [f"{name}={int(value)}" for name, value in self.constants.items()]
        return " ".join([self.kernel.__name__.lstrip("_"), *values, f"warps={self.num_warps}"])

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from another compilation for the same dtype."""
        return self.label, *sorted(self.options.items())
