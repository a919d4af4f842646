"""Is a kept launch of attention what Triton's own launch is?  Without a GPU, and no interpreter.

    python -m tests.kernels.attention_launches

Triton compiles the kernel for sm_90, and hands its arguments to a launcher that notes them.
"""

import json
from itertools import product
from typing import Any, ClassVar

import torch
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels import attention_api, attention_eager
from kernels.triton import triton_attention

SHARED, STREAM = triton_attention.HOPPER, 77


class Launcher:
    """What a compiled kernel is launched by."""

    noted: ClassVar[list[tuple[Any, ...]]] = []

    def __init__(self, *_: Any) -> None:
        pass

    def __call__(self, *given: Any) -> None:
        self.noted.append(given)


class Driver:
    """Of a GPU that is not there."""

    launcher_cls = Launcher

    class utils:
        @staticmethod
        def load_binary(*_: Any) -> tuple[int, ...]:
            return 11, 22, 128, 0, 1024  # module, function, registers, spills, threads

        @staticmethod
        def get_device_properties(_: int) -> dict[str, int]:
            return {"max_shared_mem": SHARED}

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _: int) -> int:
        return STREAM


def noted() -> list[Any]:
    """Grid, stream, kernel and its arguments, of the last launch."""
    x, y, z, stream, function, packed, _, _, _, *arguments = Launcher.noted.pop()
    return [(x, y, z), stream, function, packed, list(map(told, arguments))]


def told(argument: Any) -> Any:
    """What of ``argument`` reaches a GPU."""
    if isinstance(argument, TensorDescriptor):
        lies = argument.shape, argument.strides, argument.block_shape, argument.padding
        return [argument.base.data_ptr(), str(argument.base.dtype), *map(list, lies)]
    return argument.data_ptr() if isinstance(argument, Tensor) else argument


def main() -> None:
    """Print, for each of some calls, both launches."""
    driver.set_active(Driver())  # pyright: ignore[reportArgumentType]
    attention_api._shared = lambda _: SHARED
    pairs = []
    lengths = (65, triton_attention.SOME + 1, triton_attention.MANY)
    for dim, is_causal, scale, keys in product((64, 128), (False, True), (None, 0.25), lengths):
        query = torch.zeros(2, 129, 4, dim, dtype=torch.bfloat16).transpose(1, 2)
        key = torch.zeros(2, 2, keys, dim, dtype=torch.bfloat16)
        value = torch.zeros(2, keys, 2, dim, dtype=torch.bfloat16).transpose(1, 2)
        tensors = (query, key, value, torch.empty_like(query))
        places = [t.data_ptr() for t in tensors]
        attention_eager._prepare(*tensors, is_causal, scale)(STREAM, *places)
        kept = noted()
        factor = attention_api._factor(query, scale)
        triton_attention.attention(*tensors, is_causal, factor, SHARED)
        pairs.append((kept, noted()))
    print(json.dumps(pairs))


if __name__ == "__main__":
    main()
