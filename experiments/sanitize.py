"""Do the tools of Compute Sanitizer find anything in the frontier's kernels?

Each tool watches each regime and each operator in a process of its own (experiments/sanitized.py),
several at a time: what one finds hides nothing of the others.  A fault is planted for each tool to
find.

    python -m experiments.sanitize --out sanitizer.csv --log sanitizer.log

Exits with 1, after writing both files, where a tool found something, a result was wrong, or a run
did not come to its end.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any, Protocol

import pandas as pd
import typer

from experiments import sanitizer
from experiments.family.fingerprint import sha256_by_name
from experiments.hardware import commit
from experiments.launches import Launched, compile_all, present
from experiments.sanitized import named
from experiments.sanitizer import NAMES, OPERATORS, PLANTED, TOOLS, BadLog
from experiments.tables import SANITIZER, validated
from kernels.build import cores

FRONTIER = "frontier"
# For a run: one that takes longer waits for something.  racecheck of clusters took 139 s, and dealt
# rows of few blocks may take it some seconds a case.
LIMIT_S = 480.0
# At a time: each has a process of torch's and a context on the GPU.
MOST_RUNS = 8
FIRST_PORT, PORTS = 49_152, 20


class Launch(Launched, Protocol):
    """What the table counts: launches, and their columns."""

    @property
    def cols(self) -> int: ...


@dataclass(frozen=True)
class Run:
    """What a tool said of a regime or an operator, what the program said, and how both ended."""

    tool: str
    regime: str
    log: str
    output: str
    exit_code: int | None  # None where it took too long
    seconds: float

    @property
    def text(self) -> str:
        """For people."""
        head = f"{self.tool}, {self.regime}: {self.seconds:.1f} s, exit {self.exit_code}"
        return "\n".join([head, "-" * len(head), self.output + self.log])


def watch(tool: str, regime: str, folder: Path, port: int) -> Run:
    """Run the program of ``regime`` under ``tool``, and kill both where they take too long."""
    log, start = folder / f"{tool}-{regime}.log", time.monotonic()
    program = [sys.executable, "-m", "experiments.sanitized", regime, "--tool", tool]
    process = subprocess.Popen(
        sanitizer.command(tool, log, port, program), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, **sanitizer.ENVIRONMENT},
    )  # fmt: skip
    try:
        output, code = process.communicate(timeout=LIMIT_S)[0], process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, code = process.communicate()[0], None
    text = log.read_text(errors="replace") if log.exists() else ""
    return Run(tool, regime, text, output, code, time.monotonic() - start)


def judged(run: Run) -> dict[str, Any]:
    """Status, reason and counts of ``run``; a planted fault has to be found."""
    try:
        if run.exit_code is None:
            raise BadLog(f"it was stopped after {LIMIT_S:g} s")
        counts = sanitizer.read(run.tool, run.log)
    except BadLog as error:
        return {"status": "skipped", "reason": f"{error}; output: {_last_line(run.output)}"}
    status, reason = "ok", ""
    found = counts.errors + counts.warnings > 0
    if run.regime == PLANTED:
        if not found:
            status, reason = "wrong", "the planted fault was not found"
    elif found:
        status, reason = "wrong", counts.first or "no line says what"
    elif run.exit_code != 0:
        status, reason = "wrong", _last_line(run.output)
    counted = {"errors": counts.errors, "warnings": counts.warnings}
    return {"status": status, "reason": reason, **counted}


def _last_line(output: str) -> str:
    wrong = re.findall(r"^.*: wrong: .*$", output, re.MULTILINE)
    lines = wrong or output.strip().splitlines()
    return lines[-1] if lines else "none"


def table(
    runs: Sequence[Run], watched: Mapping[str, Sequence[Launch]], version: str, commit: str
) -> pd.DataFrame:
    """The SANITIZER table of ``runs``, in which the cases ``watched`` were launched, by name."""
    rows = []
    for run in runs:
        code = run.regime if run.regime in OPERATORS else FRONTIER
        widths = [case.cols for case in watched.get(run.regime, ())] or [1]
        rows.append(
            {
                "variant": code, "tool": run.tool, "regime": run.regime,
                "launches": len(widths), "least_cols": min(widths),
                "most_cols": max(widths), **judged(run), "seconds": run.seconds,
                "sanitizer": version, "kernel_sha256": sha256_by_name(code),
                "code_commit": commit,
            }
        )  # fmt: skip
    return validated(SANITIZER, pd.DataFrame(rows).reindex(columns=list(SANITIZER.columns)))


def main(
    out: Annotated[Path, typer.Option(help="a row a tool and regime, a CSV")],
    log: Annotated[Path, typer.Option(help="what the tools and the programs said")],
) -> None:
    """Run every regime and every operator under every tool."""
    if not sanitizer.installed():
        print("compute-sanitizer is not on PATH: install the CUDA toolkit, or add its bin folder")
        raise typer.Exit(2)
    gpu = present()
    watched = {name: some for name in NAMES[::-1] if (some := tuple(named(name, gpu)))}
    compile_all(chain.from_iterable(watched.values()))
    # The longest first.
    asked = list(product(("racecheck", "memcheck", "synccheck"), (*watched, PLANTED)))
    ports = [FIRST_PORT + PORTS * number for number in range(len(asked))]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_at_once()) as threads:
        runs = list(
            threads.map(watch, *zip(*asked, strict=True), [Path(folder)] * len(asked), ports)
        )
    runs.sort(key=lambda run: (TOOLS.index(run.tool), (*NAMES, PLANTED).index(run.regime)))
    made = table(runs, watched, sanitizer.version(), commit())
    for path in (out, log):
        path.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("\n".join(run.text for run in runs))
    made.to_csv(out, index=False)
    counts = made["status"].value_counts()
    print(", ".join(f"{count} {status}" for status, count in counts.items()))
    for row in made[made["status"] != "ok"].itertuples():
        print(f"{row.tool}, {row.regime}, {row.status}: {row.reason}")
    if set(made["status"]) != {"ok"}:
        raise typer.Exit(1)


def _at_once() -> int:
    return max(1, min(MOST_RUNS, cores() // 2))


if __name__ == "__main__":
    typer.run(main)
