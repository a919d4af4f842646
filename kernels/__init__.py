"""Softmax kernels: :func:`softmax` for any tensor, and the variants of :mod:`kernels.registry`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernels.api import softmax

__all__ = ["softmax"]


def __getattr__(name: str) -> Any:
    """``softmax``, when it is asked for: the workflow reads the registry where torch is missing."""
    if name != "softmax":
        raise AttributeError(f"module 'kernels' has no attribute '{name}'")
    from kernels.api import softmax

    globals()[name] = softmax  # from now on no call comes here
    return softmax
