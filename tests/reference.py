"""A second judge beside experiments.check: float64 softmax in numpy, with tolerances of its own."""

import numpy as np
import torch
from torch import Tensor

from kernels.outputs import Output, TopK

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# float32: some roundings of the exponent; 16 bits: half a step of the format and as much again.
RTOL = {torch.float32: 2e-5, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
# Below the smallest normal number GPUs may flush to zero; float16 has steps down to 2^-24.
ATOL = {torch.float32: 2.0**-126, torch.float16: 2.0**-24, torch.bfloat16: 2.0**-126}


def softmax64(x: Tensor) -> np.ndarray:
    """Row softmax of ``x`` (rows, cols) in float64; NaN, +inf and rows of -inf give NaN rows."""
    wide = x.double().cpu().numpy()
    with np.errstate(invalid="ignore"):
        numerator = np.exp(wide - wide.max(axis=1, keepdims=True))
        return numerator / numerator.sum(axis=1, keepdims=True)


def assert_softmax(x: Tensor, y: Output) -> None:
    """Raise AssertionError unless ``y`` is the row softmax of ``x``, or the largest of it."""
    if isinstance(y, TopK):
        assert_topk(x, y)
        return
    np.testing.assert_allclose(
        y.double().cpu().numpy(), softmax64(x), rtol=RTOL[x.dtype], atol=ATOL[x.dtype]
    )


def assert_topk(x: Tensor, top: TopK) -> None:
    """Raise AssertionError unless ``top`` has the largest of the softmax, and where they are."""
    got, at, softmax = top.values.double().cpu().numpy(), top.indices.cpu().numpy(), softmax64(x)
    largest = -np.sort(-softmax, axis=1)[:, : got.shape[1]]
    for expected in (largest, np.take_along_axis(softmax, at, axis=1)):
        np.testing.assert_allclose(got, expected, rtol=RTOL[x.dtype], atol=ATOL[x.dtype])
    assert (np.diff(got, axis=1) <= 0).all(where=~np.isnan(got[:, 1:]))
    assert all(len(set(row)) == len(row) for row in at.tolist())
    assert ((at >= 0) & (at < x.shape[1])).all()
