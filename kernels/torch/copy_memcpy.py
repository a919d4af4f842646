"""copy_memcpy: the same-shape copy by the driver.

moves    X once, Y once
launch   cudaMemcpyAsync (cudaMemcpy2DAsync where rows are strided) on the current stream
holds    nothing
teaches  what the driver's copy reaches, the other candidate for the ceiling
source   CUDA runtime API
"""

import torch
from cuda.bindings import runtime
from torch import Tensor

_KIND = runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice


def softmax(x: Tensor, out: Tensor) -> Tensor:
    """Copy ``x`` (rows, cols) to ``out``: not a softmax, the ceiling of one."""
    stream = torch.cuda.current_stream(x.device).cuda_stream
    width = x.shape[1] * x.element_size()
    if x.is_contiguous() and out.is_contiguous():
        (error,) = runtime.cudaMemcpyAsync(
            out.data_ptr(), x.data_ptr(), width * x.shape[0], _KIND, stream
        )
    else:
        pitches = (t.stride(0) * t.element_size() for t in (out, x))
        out_pitch, x_pitch = pitches
        (error,) = runtime.cudaMemcpy2DAsync(
            out.data_ptr(), out_pitch, x.data_ptr(), x_pitch, width, x.shape[0], _KIND, stream
        )
    if error != runtime.cudaError_t.cudaSuccess:
        raise RuntimeError(f"cudaMemcpyAsync failed: {error.name}")
    return out
