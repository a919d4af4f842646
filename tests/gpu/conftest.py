"""Tests of this folder run on a GPU: ``pytest -m gpu tests/gpu``."""

from collections.abc import Callable

import pytest
import torch

from experiments.hardware import commit


@pytest.fixture(scope="session", autouse=True)
def gpu() -> None:
    """Skip where there is none; nothing of this folder means anything elsewhere."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")


@pytest.fixture(scope="session")
def hopper(gpu: None) -> None:
    """Skip before Hopper."""
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("needs a GPU from Hopper on")


@pytest.fixture(scope="session", autouse=True)
def commit_in_the_report(record_testsuite_property: Callable[[str, object], None]) -> None:
    """The report says which code passed."""
    record_testsuite_property("code_commit", commit())
