"""What every command of Snakemake's waits for before its first job."""

import re
import subprocess
import sys
from pathlib import Path

from tests.workflow.recorded import SOURCE

# Seconds of imports, none of which the plan of an archive's figures needs.
HEAVY = {"torch", "triton", "pandas", "pandera", "matplotlib", "seaborn"}


def test_a_plan_imports_no_library_that_only_jobs_need(copy: Path):
    plan = ["--cores", "1", "-n", "--quiet", "all", "--config", f"source={SOURCE}"]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "snakemake", *plan],
        cwd=copy, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    imported = set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert {"snakemake.workflow", "workflow.source"} <= imported
    assert not HEAVY & imported
