"""A forked process finds imported what it was promised."""

import subprocess
import sys
from pathlib import Path

from experiments import pool
from tests.commands import ROOT, environment

# In a process of its own: this one's forkserver may be running already.
NAMES = ["experiments.listing", "torch._inductor.compile_fx", "experiments.footprint"]
SHOW = """
import sys
from experiments.pool import forkserver

def show(names):
    print(*(name in sys.modules for name in names))

if __name__ == "__main__":
    processes = forkserver("experiments.listing", inductor={inductor})
    child = processes.Process(target=show, args=({names},))
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""


def imported(inductor: bool, folder: Path) -> str:
    script = folder / "show.py"
    script.write_text(SHOW.replace("{inductor}", repr(inductor)).replace("{names}", repr(NAMES)))
    return subprocess.run(
        [sys.executable, str(script)],
        cwd=ROOT, env={**environment(), "PYTHONPATH": str(ROOT)}, check=True,
        capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip


def test_what_is_promised_is_imported_before_the_fork(tmp_path: Path):
    assert imported(True, tmp_path) == "True True False"
    assert imported(False, tmp_path) == "True False False"


def test_a_pool_runs_what_it_is_given():
    with pool.pool("cpu") as processes:
        assert list(processes.map(abs, range(-3, 3))) == [3, 2, 1, 0, 1, 2]
