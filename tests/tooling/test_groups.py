"""A group's tests run in one process: what they compile first is compiled once."""

import os
import subprocess
import sys
from pathlib import Path

from kernels.registry import ROOT

ASKS = """
import os, pytest
@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(12))
def test_of_the_group(number):
    with open("workers", "a") as workers:
        workers.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


def test_a_group_has_one_worker(tmp_path: Path):
    (tmp_path / "test_asks.py").write_text(ASKS)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "3", "--dist", "loadgroup"),
            *("-p", "no:cacheprovider", "test_asks.py"),
        ],
        env=inherited | {"PYTHONPATH": str(ROOT.parent)}, cwd=tmp_path,
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 12
    assert len(set(workers)) == 1
