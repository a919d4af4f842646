"""Fresh copies of the checkout."""

from pathlib import Path

import pytest

from tests.workflow.checkout import checkout
from tests.workflow.recorded import record


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout in which nothing was made yet and one GPU was recorded."""
    root = checkout(tmp_path / "checkout")
    record(root)
    return root
