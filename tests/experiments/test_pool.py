"""A forked process finds what it calls imported; a package that is missing is passed over."""

import subprocess
import sys

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
    processes = forkserver("experiments.listing", {variants})
    child = processes.Process(target=show, args=({names},))
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""


def imported(variants: tuple[str, ...], folder) -> str:
    script = folder / "show.py"
    script.write_text(SHOW.replace("{variants}", repr(variants)).replace("{names}", repr(NAMES)))
    return subprocess.run(
        [sys.executable, str(script)],
        cwd=ROOT, env={**environment(), "PYTHONPATH": str(ROOT)}, check=True,
        capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip


def test_what_variants_call_is_imported_before_the_fork(tmp_path):
    assert imported(("torch_compile", "quack", "liger"), tmp_path) == "True True False"
    assert imported(("triton_row",), tmp_path) == "True False False"


def test_a_pool_runs_what_it_is_given():
    with pool.pool("cpu") as processes:
        assert list(processes.map(abs, range(-3, 3))) == [3, 2, 1, 0, 1, 2]
