"""Measure a sweep: its blocks one after another, each in a fresh process, joined to a raw file.

    python -m experiments.measure --sweep vocab_scaling --mode full \
        --hardware hardware.json --out raw/vocab_scaling.csv.gz --blocks blocks/vocab_scaling

A run that is cut off leaves its finished blocks in --blocks; the next one goes on with them.
"""

import hashlib
import os
import shutil
import sys
import threading
from multiprocessing import parent_process
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from experiments.pool import forkserver
from experiments.sweeps import MODES, SWEEPS
from experiments.tables import BadTable, read_raw, write_raw
from kernels.fingerprint import variant_sha256
from kernels.registry import variant

# What a block's numbers follow from, beside the kernels.
CODE = ("block", "timer", "examine", "check", "nvml")


def asked(sweep: str, mode: str, seed: int, device: str, hardware: Path) -> str:
    """A name for everything that a block follows from: blocks of another name are not joined."""
    here = Path(__file__).parent
    files = [*(here / f"{name}.py" for name in CODE), here / "sweeps" / f"{sweep}.py", hardware]
    told = [mode, str(seed), device, *(f.read_text() for f in files)]
    told += [variant_sha256(variant(name)) for name in SWEEPS[sweep].variants]
    return hashlib.sha256("\0".join(told).encode()).hexdigest()[:16]


def finished(path: Path) -> pd.DataFrame | None:
    """The block in ``path``, or None where there is none that can be read."""
    if not path.exists():
        return None
    try:
        return read_raw(path)
    except BadTable as error:
        print(f"{path} is not a finished block: {error}. It is measured again.", file=sys.stderr)
        return None


def main(
    sweep: Annotated[str, typer.Option(help="name of the sweep")],
    mode: Annotated[str, typer.Option(help="smoke, quick or full")],
    hardware: Annotated[Path, typer.Option(help="hardware.json of the source")],
    out: Annotated[Path, typer.Option(help="the sweep's rows, a .csv.gz")],
    blocks: Annotated[Path, typer.Option(help="folder for finished blocks, until all are")],
    log: Annotated[Path, typer.Option(help="plain lines, beside the progress bar")],
    seed: Annotated[int, typer.Option(help="orders and inputs follow from it")] = 1,
    device: Annotated[str, typer.Option(help="cuda or cpu")] = "cuda",
) -> None:
    """Measure every block of a sweep that is not finished yet, and join them all."""
    if sweep not in SWEEPS:
        raise typer.BadParameter(f"unknown sweep '{sweep}'; known: {', '.join(SWEEPS)}")
    if mode not in MODES:
        raise typer.BadParameter(f"unknown mode '{mode}'; known: {', '.join(MODES)}")
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    compiles = device == "cuda" and "torch_compile" in SWEEPS[sweep].variants
    processes = forkserver("experiments.block", inductor=compiles)
    folder = blocks / asked(sweep, mode, seed, device, hardware)
    folder.mkdir(parents=True, exist_ok=True)
    tables = []
    for number in range(MODES[mode]):
        path = folder / f"block-{number}.csv.gz"
        if (table := finished(path)) is None:
            arguments = sweep, mode, number, seed, device, hardware, path, log
            process = processes.Process(target=_measure_block, args=arguments)
            process.start()
            process.join()
            if process.exitcode:
                raise typer.Exit(process.exitcode if process.exitcode > 0 else 1)
            table = read_raw(path)
        tables.append(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_raw(pd.concat(tables, ignore_index=True), out)
    # Asked for once more, the sweep is measured once more.
    shutil.rmtree(blocks)


def _measure_block(*arguments) -> None:
    from experiments.block import measure_block

    threading.Thread(target=end_with_parent, daemon=True).start()
    measure_block(*arguments)


def end_with_parent() -> None:
    """Leave the GPU to the next run where this one is killed."""
    if parent := parent_process():
        parent.join()
        os._exit(1)


if __name__ == "__main__":
    typer.run(main)
