"""Measure an operator: its blocks one after another, each in a fresh process, joined to a raw file.

    python -m experiments.family.measure --operator backward --out family/raw/backward.csv.gz
    python -m experiments.family.measure --operator backward --mode quick --blocks 1 --out b.csv.gz
    python -m experiments.family.measure --operator sample --mode smoke --device cpu --out s.csv.gz

A run that is cut off leaves its finished blocks beside --out; the next one goes on with them.  A
case that takes the GPU away is left out by a fresh process, and its row says so.
"""

import hashlib
import json
import shutil
import sys
import threading
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from experiments.family import OPERATORS
from experiments.family.fingerprint import sha256_of
from experiments.family.operator import BLOCKS, LOST
from experiments.family.tables import read_raw
from experiments.hardware import collect, gpu_name
from experiments.pool import forkserver
from experiments.tables import BadTable, write_raw
from kernels.names import slug

HERE = Path(__file__).parent
# What a block's numbers follow from, beside the kernels and the operator's own file.
CODE = ("block", "exact", "operator", "others")
MOST_CRASHES = 8


def asked(operator: str, mode: str, seed: int, device: str, facts: dict[str, Any]) -> str:
    """A name for everything that a block follows from: blocks of another name are not joined."""
    files = [*(HERE / f"{name}.py" for name in (*CODE, operator)), HERE.parent / "timer.py"]
    lasting = {key: value for key, value in facts.items() if key != "measured_utc"}
    told = [mode, str(seed), device, sha256_of(operator), json.dumps(lasting, sort_keys=True)]
    told += [file.read_text() for file in files]
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


def machine(hardware: Path | None, mode: str, seed: int, device: str) -> dict[str, Any]:
    """The facts in ``hardware``, or else those of this machine."""
    if hardware is not None:
        return json.loads(hardware.read_text())
    gpu = gpu_name() if device == "cuda" else None
    return collect(f"local-{slug(gpu) if gpu else 'cpu'}", mode, seed)


def main(
    operator: Annotated[str, typer.Option(help=f"one of {', '.join(OPERATORS)}")],
    out: Annotated[Path, typer.Option(help="the operator's rows, a .csv.gz")],
    mode: Annotated[str, typer.Option(help="full, quick or smoke: how many cases")] = "full",
    blocks: Annotated[int, typer.Option(help="processes; 0: as the mode has")] = 0,
    seed: Annotated[int, typer.Option(help="orders and inputs follow from it")] = 1,
    device: Annotated[str, typer.Option(help="cuda or cpu")] = "cuda",
    hardware: Annotated[Path | None, typer.Option(help="hardware.json of the source")] = None,
    parts: Annotated[Path | None, typer.Option(help="folder for finished blocks")] = None,
    log: Annotated[Path | None, typer.Option(help="a line a case")] = None,
) -> None:
    """Measure every block of an operator that is not finished yet, and join them all."""
    if operator not in OPERATORS:
        raise typer.BadParameter(f"unknown operator '{operator}'; known: {', '.join(OPERATORS)}")
    if mode not in BLOCKS:
        raise typer.BadParameter(f"unknown mode '{mode}'; known: {', '.join(BLOCKS)}")
    if device not in ("cuda", "cpu"):
        raise typer.BadParameter(f"unknown device '{device}'; known: cuda, cpu")
    if device == "cuda" and gpu_name() is None:
        raise typer.BadParameter("device cuda needs a GPU; without one: --mode smoke --device cpu")
    facts = machine(hardware, mode, seed, device)
    parts = parts or out.parent / f"blocks-{operator}"
    folder = parts / asked(operator, mode, seed, device, facts)
    folder.mkdir(parents=True, exist_ok=True)
    processes = forkserver("experiments.family.block", inductor=device == "cuda")
    tables = []
    for number in range(blocks or BLOCKS[mode]):
        path = folder / f"block-{number}.csv.gz"
        if (table := finished(path)) is None:
            arguments = operator, mode, number, seed, device, facts, path, log or folder / "log"
            if code := _run(processes, arguments):
                raise typer.Exit(code if code > 0 else 1)
            table = read_raw(path)
        tables.append(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_raw(joined := pd.concat(tables, ignore_index=True), out)
    # Asked for once more, the operator is measured once more.
    shutil.rmtree(parts)
    print(told(joined))


def _run(processes: ForkServerContext, arguments: tuple[Any, ...]) -> int:
    """The exit code of a block; one that loses the GPU is begun again without that case."""
    code, begun = LOST, 0
    while code == LOST and begun < MOST_CRASHES:
        process = processes.Process(target=_measure_block, args=arguments)
        process.start()
        process.join()
        code, begun = process.exitcode or 0, begun + 1
    return code


def _measure_block(*arguments) -> None:
    from experiments.family.block import measure_block
    from experiments.measure import end_with_parent

    threading.Thread(target=end_with_parent, daemon=True).start()
    measure_block(*arguments)


def told(table: pd.DataFrame) -> str:
    """How many implementations are ok, wrong and skipped, and what is wrong."""
    once = table.drop_duplicates(["implementation", "asked", "dtype", "shape"])
    counts = once["status"].value_counts()
    lines = [", ".join(f"{n} {status}" for status, n in counts.items())]
    for row in once[once["status"] == "wrong"].itertuples():
        place = f"{row.asked}, {row.dtype} {row.shape}"
        lines.append(f"wrong: {row.implementation} at {place}: {row.reason}")
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
