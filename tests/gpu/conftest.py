"""Tests of this folder run on a GPU: ``pytest -m gpu tests/gpu``."""

import pytest
import torch


@pytest.fixture(autouse=True)
def gpu() -> None:
    """Skip where there is none; nothing of this folder means anything elsewhere."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")
