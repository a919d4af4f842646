"""Tests that run beside others leave them their cores."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.registry import ROOT

ASKS = """
import os, torch
def test_threads():
    assert (torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]) == (1, "1")
"""


@pytest.mark.parametrize("told", [{}, {"OMP_NUM_THREADS": "16"}], ids=["nobody", "a job's shell"])
def test_a_worker_has_one_thread_though_a_plugin_imported_torch_first(
    told: dict[str, str], tmp_path: Path
):
    (tmp_path / "test_asks.py").write_text(ASKS)
    # A worker of its own, whatever this test runs in.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "OMP_"))}
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "torch"),
            *("-p", "tests.conftest", "-p", "no:cacheprovider", str(tmp_path)),
        ],
        env=inherited | told, cwd=ROOT.parent, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
