"""Modules that are imported when something of them is asked for.

The workflow and the goals read the operators' cases where torch is not installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any


class Later:
    """The module ``name``, from the first use of it on."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


if TYPE_CHECKING:
    import torch

    from experiments import check
    from kernels import launch, operators, ops, sampling_torch
    from kernels.frontier import backward
else:
    torch, check, launch, operators, ops, sampling_torch, backward = map(
        Later,
        (
            *("torch", "experiments.check", "kernels.launch", "kernels.operators", "kernels.ops"),
            *("kernels.sampling_torch", "kernels.frontier.backward"),
        ),
    )

__all__ = ["backward", "check", "launch", "operators", "ops", "sampling_torch", "torch"]
