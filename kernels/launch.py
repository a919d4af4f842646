"""Bind a variant to the current GPU: every one becomes ``softmax(x, out) -> out``."""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from kernels.compiled import CompileError, Job
from kernels.cuda_compiler import compile_cuda, instances
from kernels.outputs import Output, TopK
from kernels.prepared import make_current
from kernels.registry import Variant, variant

# (x, out) -> out, where out is a Tensor, or a TopK if the variant's k says so.
Softmax = Callable[[Tensor, Any], Any]


class Unavailable(RuntimeError):
    """A variant cannot run on this machine; the message says why and what would help."""


@cache
def bind(name: str) -> Softmax:
    """The callable of variant ``name``, which refuses what the variant would get wrong.

    It takes ``x`` and ``out``, both (rows, cols) of one dtype with unit column stride, writes the
    row softmax of ``x`` to ``out`` on the current stream and returns ``out``.  Where the variant
    gives the k largest of a row, ``out`` is a TopK of (rows, k) tensors.

    Raises KeyError for an unknown name and Unavailable where this machine lacks something; the
    callable raises ValueError for tensors that are not as above.
    """
    softmax, k = load(name), variant(name).k

    def call(x: Tensor, out: Output) -> Output:
        check_arguments(x, out, k)
        return softmax(x, out)

    return call


@cache
def load(name: str) -> Softmax:
    """As ``bind``, but without a look at the arguments: what timers call.

    The look would add a microsecond to every variant's call, to the fastest the largest share.
    """
    v = variant(name)
    if v.framework == "cuda":
        return _Cuda(v)
    try:
        with _absent("peft", "transformers"):
            module = importlib.import_module(f"kernels.{v.framework}.{v.path.stem}")
    except ImportError as error:
        group = "peers" if v.framework == "peers" else "gpu"
        raise Unavailable(
            f"{name} needs the package '{error.name}': pip install --group {group} "
            "-c constraints.txt"
        ) from error
    return partial(module.softmax, **dict(v.options)) if v.options else module.softmax


@contextmanager
def _absent(*names: str) -> Iterator[None]:
    """Let whoever asks whether modules are installed, by importing them, think that they are not.

    Liger asks for peft and transformers: seconds, for nothing that its kernels use.
    """
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def tuned(name: str) -> str:
    """What the autotuning of variant ``name`` chose since the last question; '' without any."""
    v = variant(name)
    if v.framework == "cuda":
        return ""
    module = importlib.import_module(f"kernels.{v.framework}.{v.path.stem}")
    return module.tuned() if hasattr(module, "tuned") else ""


def check_arguments(x: Tensor, out: Output, k: int = 0) -> None:
    """Raise ValueError unless ``x`` and ``out`` are what a variant of this ``k`` takes."""
    tensors = {"x": x, **_outputs(x, out, k)}
    for label, tensor in tensors.items():
        if tensor.stride(1) != 1 and tensor.shape[1] > 1:
            raise ValueError(f"expected {label} with unit column stride; got {tensor.stride()}")


def _outputs(x: Tensor, out: Output, k: int) -> dict[str, Tensor]:
    """The tensors of ``out`` by name; raises ValueError unless shapes and dtypes fit ``x``."""
    if isinstance(out, TopK) != bool(k):
        wanted = f"a TopK of {k}" if k else "a tensor"
        raise ValueError(f"expected out to be {wanted}; got {type(out).__name__}")
    if not isinstance(out, TopK):
        if x.dim() != 2 or x.shape != out.shape or x.dtype != out.dtype:
            raise ValueError(
                f"expected x and out of one 2-D shape and dtype; got {tuple(x.shape)} {x.dtype} "
                f"and {tuple(out.shape)} {out.dtype}"
            )
        return {"out": out}
    if x.dim() != 2 or x.shape[1] < k:
        raise ValueError(f"expected x of 2-D shape, {k} columns or more; got {tuple(x.shape)}")
    for tensor, dtype in zip(out, (x.dtype, torch.int64), strict=True):
        if tensor.shape != (len(x), k) or tensor.dtype != dtype:
            raise ValueError(
                f"expected out of shape {(len(x), k)}, values {x.dtype} and indices torch.int64; "
                f"got {tuple(tensor.shape)} {tensor.dtype}"
            )
    return {"values": out.values, "indices": out.indices}


class _Cuda:
    """Launches a compiled ``.cu`` variant through cuda.core."""

    def __init__(self, v: Variant) -> None:
        if not torch.cuda.is_available():
            raise Unavailable(f"{v.name} needs a CUDA GPU")
        _check_driver()
        assert v.launch is not None
        self.variant, self.policy = v, v.launch
        self.loaded = {}

    def __call__(self, x: Tensor, out: Output) -> Output:
        import numpy as np
        from cuda.core import LaunchConfig, launch

        device = x.get_device()
        if torch.cuda.current_device() != device:
            with torch.cuda.device(device):
                return self(x, out)
        make_current(device)
        (rows, cols), policy = x.shape, self.policy
        tile = policy.tile(cols)
        whole = policy.whole and policy.filled(cols) and _on_16_bytes(x) and _on_16_bytes(out)
        kernels = self.loaded.get((device, x.dtype, tile, whole)) or self._load(x, tile, whole)
        threads, shared = policy.block(cols)
        config = LaunchConfig(
            grid=-(-rows // policy.rows) * policy.splits, block=threads, shmem_size=shared
        )
        if isinstance(out, TopK):
            arguments = [
                x.data_ptr(), out.values.data_ptr(), out.indices.data_ptr(), np.int64(x.stride(0)),
                np.int64(out.values.stride(0)), np.int64(out.indices.stride(0)), np.int32(cols),
            ]  # fmt: skip
        else:
            arguments = [
                x.data_ptr(), out.data_ptr(),
                np.int64(x.stride(0)), np.int64(out.stride(0)), np.int32(cols),
            ]  # fmt: skip
        if policy.rows > 1:
            arguments.append(np.int32(rows))
        if policy.splits > 1:
            # A maximum and a sum for each block; kept by the stream's order until both have run.
            parts = torch.empty(rows * policy.splits * 2, dtype=torch.float32, device=x.device)
            arguments.insert(2, parts.data_ptr())
        stream = _stream(torch.cuda.current_stream(device).cuda_stream)
        for kernel in kernels:
            launch(stream, config, kernel, *arguments)
        return out

    def _load(self, x: Tensor, tile: tuple[int, int] | None, whole: bool):
        from cuda.core import ObjectCode

        job = Job(self.variant.name, str(x.dtype).removeprefix("torch."), architecture())
        try:
            made = compile_cuda(self.variant, job)
        except CompileError as error:
            raise Unavailable(f"{job.variant} does not compile for {job.arch}: {error}") from error
        code = ObjectCode.from_cubin(made.cubin)
        kernels = [
            code.get_kernel(kernel.symbol)
            for kernel, instance in zip(made.kernels, instances(self.policy), strict=True)
            if instance.tile == tile and bool(instance.whole) == whole
        ]
        self.loaded[x.get_device(), x.dtype, tile, whole] = kernels
        return kernels


def _on_16_bytes(t: Any) -> bool:
    """Whether every row of the tensor ``t`` starts there."""
    return (t.data_ptr() | t.stride(0) * t.element_size()) % 16 == 0


def architecture() -> str:
    """The present GPU's architecture as compilers name it, such as sm_90."""
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


@cache
def _stream(handle: int):
    from cuda.core import Stream

    return Stream.from_handle(handle)


@cache
def _check_driver() -> None:
    from cuda.bindings import driver

    _, supported = driver.cuDriverGetVersion()
    if supported < 13000:
        raise Unavailable(
            f"the GPU driver supports CUDA {supported // 1000}.{supported % 1000 // 10}, the "
            "kernels are built for CUDA 13.0: install driver 580 or newer"
        )
