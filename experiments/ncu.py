"""Nsight Compute (ncu): whether it is here, how it is called, and what its report says.

Every kernel starts with empty caches (--cache-control all), so that it reads what it reads from
DRAM whatever ran before it.  A flush of our own would not do: what it wrote would still lie in the
L2, and be written back at the expense of the kernel that is watched.  What the kernel itself leaves
in the L2 at its end has not been written yet, and is not counted: at most the size of the L2.
No clock is changed (--clock-control none).
"""

import csv
import math
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from experiments.layout import Place

# Columns of PROFILE (experiments/tables.py), and the metric of each.
METRICS: Mapping[str, str] = {
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "duration_us": "gpu__time_duration.sum",
    "dram_throughput_pct": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "waves": "launch__waves_per_multiprocessor",
    "issue_pct": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "registers": "launch__registers_per_thread",
    "block_size": "launch__block_size",
    "grid_size": "launch__grid_size",
}
# What a warp that issues nothing waits for: the warps that do, by the reason.  Which reasons there
# are differs between GPUs, and whether they can be told between versions: counts do without.
STALLS: Mapping[str, str] = {
    reason: f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
    for reason in (
        *("barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle"),
        *("long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "misc"),
        *("no_instruction", "not_selected", "short_scoreboard", "sleeping", "tex_throttle", "wait"),
    )
}
# What one of each unit is in bytes and microseconds; names differ between versions.
UNITS: Mapping[str, float] = {
    **{"": 1.0, "%": 1.0, "register/thread": 1.0, "block": 1.0, "thread": 1.0, "wave": 1.0},
    **{"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9},
    **{"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0},
    **{"ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6},
}
RANGES = "Push/Pop_Range"
ERROR = "==ERROR== "
FORBIDDEN = "ERR_NVGPUCTRPERM"
ALLOW = "run as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"

# The columns of METRICS, and those reasons of STALLS that are told.
Launch = dict[str, float]
T = TypeVar("T")


class BadReport(ValueError):
    """What ncu wrote is not a report that is understood; the message says why."""


class Refused(RuntimeError):
    """ncu could not read the GPU's counters; the message says what it said, and what to do."""


def installed() -> bool:
    """Whether there is an ncu to call."""
    return shutil.which("ncu") is not None


def version() -> str:
    """As tables name it: Nsight Compute 2025.3.1.0."""
    said = subprocess.run(["ncu", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Version (\S+)", said)
    return f"Nsight Compute {found[1] if found else 'of an unknown version'}"


def command(report: Path, program: Sequence[str]) -> list[str]:
    """The call that watches ``program`` while it asks to be watched, and writes ``report``."""
    return [
        *("ncu", "--profile-from-start", "off", "--nvtx", "--target-processes", "application-only"),
        *("--clock-control", "none", "--cache-control", "all", "--replay-mode", "kernel"),
        *("--csv", "--page", "raw", "--print-units", "base"),
        *("--metrics", ",".join([*METRICS.values(), *STALLS.values()])),
        *("--log-file", str(report)),
        *program,
    ]


def label(name: str, place: Place) -> str:
    """The NVTX range around a call of variant ``name``."""
    return " ".join(map(str, (name, *place)))


def stall(launch: Launch) -> tuple[str, float]:
    """The reason for which most warps waited, and its share of all that did in percent.

    '' and NaN where the report tells of none.
    """
    told = {reason: launch[reason] for reason in STALLS if reason in launch}
    if not (waiting := sum(told.values())):
        return "", math.nan
    most = max(told, key=told.__getitem__)
    return most, 100 * told[most] / waiting


def error(text: str) -> str:
    """The first error that a report tells of, '' where there is none."""
    told = (line for line in text.splitlines() if line.startswith(ERROR))
    return next(told, "").removeprefix(ERROR).rstrip(".")


def read(text: str) -> dict[tuple[str, Place], list[Launch]]:
    """The kernels of a report by variant and place, as ``launches`` gives them."""
    return launches(text, _call)


def launches(text: str, call: Callable[[str], T]) -> dict[T, list[Launch]]:
    """The kernels of a report in the order of their launches, by the call that launched them.

    ``call`` knows it by the NVTX ranges around a kernel, and raises BadReport where it does not.
    Bytes, microseconds and percentages.  Raises Refused where ncu read no counters, and BadReport.
    """
    said = error(text)
    if FORBIDDEN in said:
        raise Refused(f"the driver keeps the GPU's counters from this user ({FORBIDDEN}): {ALLOW}")
    lines = (line for line in text.splitlines() if line and not line.startswith("=="))
    rows = list(csv.reader(lines))
    if said and not rows:
        raise Refused(f"ncu could not count: {said}")
    if len(rows) < 3:
        raise BadReport("it holds no kernel")
    head, units = rows[:2]
    if missing := [metric for metric in METRICS.values() if metric not in head]:
        raise BadReport(f"it lacks {', '.join(missing)}; this GPU or this ncu may not have them")
    ranges = [i for i, name in enumerate(head) if RANGES in name]
    stalls = {reason: head.index(metric) for reason, metric in STALLS.items() if metric in head}
    found: dict[T, list[Launch]] = {}
    for row in rows[2:]:
        of = call(" ".join(row[i] for i in ranges))
        launch = {
            column: _number(row[i := head.index(metric)], units[i], metric)
            for column, metric in METRICS.items()
        }
        waiting = {reason: _ratio(row[i]) for reason, i in stalls.items()}
        launch |= {reason: warps for reason, warps in waiting.items() if math.isfinite(warps)}
        found.setdefault(of, []).append(launch)
    return found


def _call(cell: str) -> tuple[str, Place]:
    """From the ranges around a kernel: '648  "<default domain>:quack float32 8 4 contiguous:'."""
    match = re.search(r":(\w+) (\w+) (\d+) (\d+) ([\w +]+):", cell)
    if match is None:
        raise outside(cell)
    return match[1], Place(match[2], int(match[3]), int(match[4]), match[5])


def outside(cell: str) -> BadReport:
    """What to raise where the ranges around a kernel, ``cell``, are those of no call."""
    return BadReport(f"a kernel was launched in the range '{cell}'; expected that of a call")


def _ratio(text: str) -> float:
    """A number whatever its unit, NaN where there is none: 'n/a', ''."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.nan


def _number(text: str, unit: str, metric: str) -> float:
    if unit not in UNITS:
        raise BadReport(f"{metric} is in '{unit}'; known units: {', '.join(filter(None, UNITS))}")
    try:
        return float(text.replace(",", "")) * UNITS[unit]
    except ValueError as error:
        raise BadReport(f"{metric} is '{text}' where a number was expected") from error
