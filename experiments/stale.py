"""Which rows are stale: measured with code that is another today.

The whole code of a variant counts (kernels/fingerprint.py).  A row of the frontier that was taken
on the device is current, too, where today's code launches the same at its place on the same GPU as
the code that measured it did (experiments/launched.py); what a caller waits for depends on more.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.family.fingerprint import sha256_by_name
from experiments.hardware import environment_sha256, of_sweep
from experiments.launched import (
    KEY,
    NAME,
    BadRecord,
    Gpu,
    gpu_of,
    launched_sha256,
    places_its_launch,
    read,
)
from experiments.layout import CONTIGUOUS, Place
from experiments.sweeps.sweep import AGAIN
from experiments.tables import DEVICE_TIMERS, POINT, BadTable, reading
from kernels.names import slug

ARCHIVES = Path(__file__).with_name("archive")
ON_DEVICE = (*DEVICE_TIMERS, "device")
CALLS = "first_ms"  # a table that has it tells what callers waited for
ENVIRONMENT = "env_sha256"


@dataclass(frozen=True)
class Record:
    """What an archive knows of launches: on which GPU, in which environments, and what by KEY."""

    gpu: Gpu
    environments: frozenset[str]
    launched: Mapping[tuple[Any, ...], str]


def stale(table: pd.DataFrame, gpu: str = "") -> pd.Series:
    """Whether each row of ``table``, one of those with a kernel_sha256, is stale.

    ``gpu`` is the slug of the one that measured; RAW rows name their environment instead.  Raises
    BadRecord.
    """
    names = table["variant"].str.removesuffix(AGAIN)
    changed = names.map(sha256_by_name) != table["kernel_sha256"]
    asked = changed & _by_launch(table, names)
    if not asked.any():
        return changed
    rows = table[asked].assign(variant=names)
    if "layout" not in rows:
        rows["layout"] = CONTIGUOUS
    keys = [*KEY, ENVIRONMENT] if ENVIRONMENT in rows else KEY
    places = rows[keys].drop_duplicates()
    where = places.itertuples(index=False, name=None)
    places["same"] = [_same(key[: len(KEY)], "".join(key[len(KEY) :]), gpu) for key in where]
    changed[asked] = ~rows[keys].merge(places, how="left")["same"].to_numpy(bool)
    return changed


def gpu_beside(path: Path) -> str:
    """The slug of the GPU in the hardware.json beside a table; empty where there is none.

    Raises BadFile where that file tells none.
    """
    hardware = path.with_name("hardware.json")
    if not hardware.exists():
        return ""
    with reading(hardware, "a source's hardware.json"):
        facts = json.loads(hardware.read_text())
        if not isinstance(facts, dict) or not isinstance(gpu := facts.get("gpu") or "", str):
            raise BadTable("it names no GPU")
    return slug(gpu)


def labelled(stale_rows: pd.Series, names: pd.Series) -> dict[str, str]:
    """The variants that have stale rows, each with a part that says in how many if not in all."""
    told = stale_rows.groupby(names).agg(["sum", "size"])
    told = told[told["sum"] > 0]
    return {
        str(name): "" if some == every else f" ({some} of {every} rows)"
        for name, some, every in told.itertuples(name=None)
    }


def _by_launch(table: pd.DataFrame, names: pd.Series) -> pd.Series:
    """The rows that what is launched can speak for."""
    able = names.map(places_its_launch)
    if CALLS in table or not set(POINT) <= set(table):
        return able & False
    if "timer" in table:
        able &= table["timer"].isin(ON_DEVICE)
    return able & (table["status"] == "ok") if "status" in table else able


def _same(key: tuple[Any, ...], environment: str, gpu: str) -> bool:
    """Whether today's code launches what an archive's record has at ``key``."""
    _, name, layout, dtype, rows, cols = key
    place = Place(dtype, rows, cols, layout)
    for known in records(ARCHIVES):
        mine = environment in known.environments if environment else known.gpu.name == gpu
        if mine and key in known.launched:
            return launched_sha256(name, place, known.gpu) == known.launched[key]
    return False


@cache
def records(archives: Path) -> tuple[Record, ...]:
    """What the archives in the folder ``archives`` know.  Raises BadRecord."""
    return tuple(_record(path.parent) for path in sorted(archives.glob(f"*/{NAME}")))


def _record(folder: Path) -> Record:
    table = read(folder / NAME)
    try:
        facts = json.loads((folder / "hardware.json").read_text())
        gpu = gpu_of(facts)
        runs = (*facts.get("earlier", {}), "")
        environments = frozenset(environment_sha256(of_sweep(facts, run)) for run in runs)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRecord(
            f"{folder / 'hardware.json'} is none of this project: {error!r}: check it out again"
        ) from error
    if gpu is None:
        raise BadRecord(f"{folder / 'hardware.json'} does not tell what GPU {NAME} is of")
    launched = table.set_index(KEY)["launched_sha256"].to_dict()
    return Record(gpu, environments, launched)
