"""What a Triton variant tells the ahead-of-time build about itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Specialisation:
    """One compilation of a Triton kernel, for every dtype of its variant.

    ``cols_held`` is the number of columns a program keeps on chip, 0 where it streams.
    """

    kernel: Any
    constants: Mapping[str, int] = field(default_factory=dict)
    num_warps: int = 4
    cols_held: int = 0

    @property
    def label(self) -> str:
        values = [f"{name}={value}" for name, value in self.constants.items()]
        return " ".join([self.kernel.__name__.lstrip("_"), *values, f"warps={self.num_warps}"])
