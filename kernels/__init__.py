"""Softmax kernels: functions for any tensor, and the variants of :mod:`kernels.registry`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernels.api import log_softmax, softmax
    from kernels.attention_eager import attention
    from kernels.cross_entropy_api import cross_entropy
    from kernels.sampling import sample
    from kernels.topk import topk_softmax

__all__ = ["attention", "cross_entropy", "log_softmax", "sample", "softmax", "topk_softmax"]

_MODULES = {
    "attention": "kernels.attention_eager",
    "cross_entropy": "kernels.cross_entropy_api",
    "log_softmax": "kernels.api",
    "sample": "kernels.sampling",
    "softmax": "kernels.api",
    "topk_softmax": "kernels.topk",
}


def __getattr__(name: str) -> Any:
    """A function, when it is asked for: the workflow reads the registry where torch is missing."""
    if name not in _MODULES:
        raise AttributeError(f"module 'kernels' has no attribute '{name}'")
    try:
        module = import_module(_MODULES[name])
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "kernels":
            raise
        raise ModuleNotFoundError(
            f"kernels.{name} needs {error.name}, which is not installed here: make smoke installs "
            "all that it needs into this checkout's .venv",
            name=error.name,
        ) from error
    globals()[name] = found = getattr(module, name)
    return found  # from now on no call comes here
