"""The whole road on a CPU: compile, check, measure, tidy, draw; and again after a kill."""

import os
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pandas as pd

from experiments.sweeps import MODES, SWEEPS
from experiments.sweeps.sweep import AGAIN
from experiments.tables import read_raw
from kernels.compiled import CACHE
from kernels.registry import variant
from tests.commands import environment
from tests.workflow.checkout import snakemake
from tests.workflow.recorded import SOURCE

MADE = Path("results/local-cpu")
CONFIG = ["--config", f"source={SOURCE}"]
SMOKE = SWEEPS["smoke"]
# 16-bit steps of torch_naive are wrong on some of the inputs, and told so.
MAY_BE_WRONG = {("torch_naive", "float16")}
PATIENCE_S = 300


def assert_complete(raw: pd.DataFrame) -> None:
    """Every variant at every point in every block: its two samples, or one reason."""
    keys = ["variant", "dtype", "rows", "cols", "block"]
    wanted = {
        (entry, *point, block)
        for entry, point, block in product(
            SMOKE.entries(), SMOKE.points("smoke"), range(MODES["smoke"])
        )
    }
    groups = raw.groupby(keys)
    assert set(groups.groups) == wanted
    for (entry, dtype, *_), rows in groups:
        name = entry.removesuffix(AGAIN)
        statuses = set(rows["status"])
        if not variant(name).cpu:
            assert statuses == {"skipped"}
        elif (name, dtype) not in MAY_BE_WRONG:
            assert statuses == {"ok"}
        assert rows["sample"].tolist() == ([0, 1] if statuses == {"ok"} else [0])
        assert (rows["time_ns"] > 0).all() == (statuses == {"ok"})
        assert (rows["reason"] == "").all() == (statuses == {"ok"})


def test_smoke_from_nothing_through_a_kill_and_nothing_twice(copy: Path):
    path = copy / MADE / "raw" / "smoke.csv.gz"
    first = start_and_kill(copy, "smoke")
    assert not path.exists()

    done = snakemake(copy, "smoke", *CONFIG)  # the same command again
    assert done.returncode == 0, done.stdout
    raw = read_raw(path)
    assert_complete(raw)
    pd.testing.assert_frame_equal(raw[raw["block"] == 0], first)
    assert {p.suffix for p in (copy / MADE / "figures").glob("smoke.*")} == {".svg", ".png", ".pdf"}

    checked = pd.read_csv(copy / MADE / "correctness.csv")
    wrong = checked.loc[checked["status"] == "wrong", ["variant", "dtype"]].drop_duplicates()
    assert set(wrong.itertuples(index=False, name=None)) == {
        ("torch_naive", "float16"), ("torch_naive", "bfloat16"),
    }  # fmt: skip

    tidy = pd.read_csv(copy / MADE / "tidy" / "smoke.csv")
    assert not tidy["stale"].any()
    assert set(tidy["timer"]) == {"host", "none"}
    eager = tidy[tidy["variant"] == "torch_eager"]
    assert len(eager) == len(list(SMOKE.points("smoke")))
    assert (eager["n_blocks"] == MODES["smoke"]).all()
    assert (eager["speedup_vs_torch"] == 1).all()

    again = snakemake(copy, "smoke", *CONFIG)
    assert again.returncode == 0
    assert "Nothing to be done" in again.stdout

    kernel = copy / "kernels" / "torch" / "torch_eager.py"
    kernel.write_text(kernel.read_text() + "CHANGED = True\n")
    changed = snakemake(copy, "smoke", *CONFIG)  # once is enough
    assert changed.returncode == 0, changed.stdout
    assert not pd.read_csv(copy / MADE / "tidy" / "smoke.csv")["stale"].any()
    before, now = (fingerprints(table) for table in (raw, read_raw(path)))
    assert before["torch_eager"] != now["torch_eager"]
    assert before["torch_naive"] == now["torch_naive"]
    assert "Nothing to be done" in snakemake(copy, "smoke", *CONFIG).stdout


def fingerprints(raw: pd.DataFrame) -> dict[str, str]:
    return dict(zip(raw["variant"], raw["kernel_sha256"], strict=True))


def start_and_kill(root: Path, target: str) -> pd.DataFrame:
    """Kill a run, with all its processes, once its first block is written; that block."""
    command = [sys.executable, "-m", "snakemake", "--cores", "2", target, *CONFIG]
    blocks = root / MADE / "blocks" / "smoke"
    with (root / "killed.log").open("w") as log:
        run = subprocess.Popen(
            command, cwd=root, env=environment(CACHE), stdout=log, stderr=log, process_group=0
        )
    try:
        give_up = time.monotonic() + PATIENCE_S
        while not list(blocks.rglob("block-0.csv.gz")):
            assert run.poll() is None, (root / "killed.log").read_text()
            assert time.monotonic() < give_up, (root / "killed.log").read_text()
            time.sleep(0.02)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    (first,) = blocks.rglob("block-*.csv.gz")
    return read_raw(first)
