"""A second judge beside experiments.check: float64 softmax in numpy, with tolerances of its own."""

import numpy as np
import torch
from torch import Tensor

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


def assert_softmax(x: Tensor, y: Tensor) -> None:
    """Raise AssertionError unless ``y`` is the row softmax of ``x``, both (rows, cols)."""
    np.testing.assert_allclose(
        y.double().cpu().numpy(), softmax64(x), rtol=RTOL[x.dtype], atol=ATOL[x.dtype]
    )
