"""What a reviewer without a GPU waits for: seconds and memory of the archive run, and of a second.

Clones this checkout's commit into a temporary folder, so that nothing made before is used.

    python -m experiments.footprint --cores 2
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import psutil
import typer

ROOT = Path(__file__).parent.parent
POLL_S = 0.05


def run(folder: Path, cores: int) -> tuple[float, int]:
    """Seconds and peak bytes (proportional set size of all processes) of one archive run."""
    # The script beside this interpreter, as a user runs it.
    command = [str(Path(sys.executable).parent / "snakemake"), "--cores", str(cores)]
    start, peak = time.perf_counter(), 0
    with (folder / "snakemake.out").open("w") as log:
        process = psutil.Popen(
            [*command, "--config", "source=archive"], cwd=folder, stdout=log, stderr=log
        )
        while process.poll() is None:
            peak = max(peak, _tree_bytes(process))
            time.sleep(POLL_S)
    seconds = time.perf_counter() - start
    if process.returncode:
        print((folder / "snakemake.out").read_text())
        raise typer.Exit(process.returncode)
    return seconds, peak


def _tree_bytes(process: psutil.Process) -> int:
    total = 0
    for member in [process, *process.children(recursive=True)]:
        try:
            total += member.memory_full_info().pss
        except psutil.Error:  # it ended between the two looks
            continue
    return total


def main(cores: Annotated[int, typer.Option(help="handed to snakemake")] = 2) -> None:
    """Time the archive run in a fresh clone, and a second run in it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "clone"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
        for title in ("first run", "second run"):
            seconds, peak = run(folder, cores)
            print(f"{title}: {seconds:.1f} s, at most {peak / 2**20:.0f} MiB")


if __name__ == "__main__":
    typer.run(main)
