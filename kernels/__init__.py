"""Softmax kernels: functions for any tensor, and the variants of :mod:`kernels.registry`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernels.api import log_softmax, softmax

__all__ = ["log_softmax", "softmax"]
_HOMES = dict.fromkeys(__all__, "kernels.api")


def __getattr__(name: str) -> Any:
    """A function, when it is asked for: the workflow reads the registry where torch is missing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'kernels' has no attribute '{name}'")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found  # from now on no call comes here
    return found
