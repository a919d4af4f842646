"""Fresh copies of the checkout."""

import shutil
from pathlib import Path

import pytest

from tests.workflow.checkout import checkout
from tests.workflow.recorded import record


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive folder with a full run of every sweep."""
    return record(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def copy(tmp_path: Path, recording: Path) -> Path:
    """A checkout in which nothing was made yet and one GPU was recorded."""
    root = checkout(tmp_path / "checkout")
    shutil.copytree(recording, root / "experiments" / "archive" / recording.name)
    return root
