"""Compute Sanitizer: whether it is here, how it is called, and what its logs say.

memcheck   accesses outside of an allocation, or not aligned
racecheck  accesses of shared memory that no barrier orders
synccheck  barriers that are used wrongly
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernels.frontier.plans import REGIMES
from kernels.registry import DTYPES

TOOLS: tuple[str, ...] = ("memcheck", "racecheck", "synccheck")
PLANTED = "planted"  # a regime that is a fault for each tool to find
# What is watched beside the regimes: these of experiments/family, by its names.
OPERATORS = (
    "factors", "masks", "columns", "backward", "cross_entropy", "topk_softmax", "sample",
)  # fmt: skip
# And dealt rows that use their rings again: the widest, and of few blocks (experiments/wrapped.py).
RINGS = "rings"
# And, of each dtype, what regimes are not watched with: all three sides of few rows' thresholds.
FEW = {f"few_{dtype}": dtype for dtype in DTYPES}
# Regimes, operators and the rest: the table's rows are in this order.
NAMES = (*REGIMES, RINGS, *OPERATORS, *FEW)
# The frontier's kernels.  In the middle stands that of which a fault is planted: a tool that took
# one filter alone, the first or the last, would not find it.
KERNELS = (
    "candidates", "chosen", "cross_entropy", "cross_entropy_scale", "cross_entropy_targets",
    "draw", "highest", "judge", "narrow", "softmax", "sample", "sample_of_top", "softmax_backward",
    "softmax_columns", "topk_softmax",
)  # fmt: skip
# And none of torch's, which stand in a namespace: as the compiler writes names.
FILTERS = tuple(f"kns=_Z{len(name)}{name}" for name in KERNELS)
# Of a block, at most: chunks.cu has them in arrays, and the tool may count an array as one.
BARRIERS = 256
OPTIONS = {
    # Calls that fail raise in Python; libraries also try some that may fail, and go on.
    "memcheck": ("--report-api-errors", "no", "--padding", "256"),
    "racecheck": ("--num-cuda-barriers", str(BARRIERS)),
    "synccheck": ("--num-cuda-barriers", str(BARRIERS)),
}
# Torch would keep tensors side by side in one allocation, where an overrun leaves none.
ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
_LINE = r"^=+ "
_ERRORS = re.compile(_LINE + r"ERROR SUMMARY: ([\d,]+) errors?$", re.MULTILINE)
_HAZARDS = re.compile(
    _LINE
    + r"RACECHECK SUMMARY: [\d,]+ hazards? displayed \(([\d,]+) errors?, ([\d,]+) warnings?\)",
    re.MULTILINE,
)
# After these nobody knows what was looked at.
_UNRELIABLE = re.compile(
    _LINE + r"(Internal Sanitizer Error|.*Detected overflow of tracked|.*unable to find)"
)
_FINDING = re.compile(
    _LINE + r"((Invalid|Potential invalid|Uninitialized|Barrier error|Program hit"
    r"|(Error|Warning): Race reported|Deadlock detected|Error: ).*)"
)


class BadLog(ValueError):
    """What the tool wrote is not the log of a whole run; the message says why."""


@dataclass(frozen=True)
class Counts:
    """What a tool found, and the first line of it."""

    errors: int
    warnings: int = 0
    first: str = ""


def installed() -> bool:
    """Whether there is a compute-sanitizer to call."""
    return shutil.which("compute-sanitizer") is not None


def version() -> str:
    """As tables name it: Compute Sanitizer 2025.3.1.0."""
    command = ["compute-sanitizer", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"[Vv]ersion (\S+)", said)
    return f"Compute Sanitizer {found[1] if found else 'of an unknown version'}"


def command(tool: str, log: Path, port: int, program: Sequence[str]) -> list[str]:
    """The call that runs ``program`` under ``tool``, which writes ``log``.

    Calls at the same time need a ``port`` each.
    """
    return [
        *("compute-sanitizer", "--tool", tool, *OPTIONS[tool]),
        *(word for each in FILTERS for word in ("--kernel-name", each)),
        *("--target-processes", "all", "--port", str(port), "--print-limit", "20"),
        *("--show-backtrace", "no", "--log-file", str(log), "--"),
        *program,
    ]


def read(tool: str, text: str) -> Counts:
    """What ``tool`` counted, by the summary at the end of its log.  Raises BadLog."""
    lines = text.splitlines()
    if strange := next((line for line in lines if _UNRELIABLE.match(line)), None):
        raise BadLog(strange.lstrip("= "))
    found = next((m[1] for line in lines if (m := _FINDING.match(line))), "")
    errors = [_number(n) for n in _ERRORS.findall(text)]
    hazards = [(_number(e), _number(w)) for e, w in _HAZARDS.findall(text)]
    if not (hazards if tool == "racecheck" else errors):
        last = next((line.lstrip("= ") for line in reversed(lines) if line.strip("= ")), "nothing")
        raise BadLog(f"it ends without a summary, with: {last}")
    warnings = sum(w for _, w in hazards)
    return Counts(sum(errors) + sum(e for e, _ in hazards), warnings, found)


def _number(text: str) -> int:
    return int(text.replace(",", ""))
