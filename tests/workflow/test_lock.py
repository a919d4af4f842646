"""The folder's lock holds out a second run, and dies with its holder."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import ROOT
from workflow.lock import Busy, acquire

HOLD = "import sys; from pathlib import Path; from workflow.lock import acquire\n"
HOLD += "held = acquire(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"


def test_a_second_run_is_told_to_wait_until_the_first_is_killed(tmp_path: Path):
    path = tmp_path / ".snakemake" / "lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(Busy, match=f"another run is working in {tmp_path}: wait for it"):
            acquire(path)
        first.kill()
    acquire(path).close()


def test_a_closed_lock_is_free(tmp_path: Path):
    acquire(tmp_path / "lock").close()
    with acquire(tmp_path / "lock"), pytest.raises(Busy):
        acquire(tmp_path / "lock")
