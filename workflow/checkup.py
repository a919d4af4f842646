"""The findings of `make doctor`: one line each, in the order in which a run would meet them.

Standard library alone, except where it looks into an environment that is there.
"""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from experiments import ncu, sanitizer
from experiments.listing import SUMS
from kernels.names import slug
from workflow import machine
from workflow.machine import DEFAULT_ARCHIVE, DRIVER, ROOT, Gpu
from workflow.minutes import full_run, times_all_of

ARCHIVES = ROOT / "experiments" / "archive"
RESULTS_GB = 1
# What the Makefile tells of the installation, by group.
INSTALLED_GB = {"base": 2, "gpu": 6}
OK, NOTE, STOP = "ok", "note", "stop"


class Finding(NamedTuple):
    """One line: whether it is as it should be, costs something, or stops a run; and what to do."""

    level: str
    text: str


def report() -> int:
    """Print every finding, then what runs here; the exit status is 1 where nothing does."""
    gpu = machine.first_gpu()
    found = [*findings(gpu)]
    for finding in found:
        print(f"{finding.level:<5} {finding.text}")
    stopped = any(finding.level == STOP for finding in found)
    print()
    print("make stops here: see above" if stopped else outlook(gpu))
    return int(stopped)


def findings(gpu: Gpu | None) -> Iterator[Finding]:
    """What was looked at, on a machine with this ``gpu``."""
    yield system()
    yield python()
    yield disk(ROOT, missing("gpu" if gpu else "base"))
    yield from packages("gpu" if gpu else "base")
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    more = f": make draws on two, make CORES={cores} on all" if cores > 2 else ""
    yield Finding(OK, f"{cores} core{'s' * (cores != 1)}{more}")
    yield graphics(gpu)
    if gpu:
        yield archived(gpu)
        yield from of_gpu(gpu)
    yield from tools(gpu)
    yield browser()


def system() -> Finding:
    """Whether the compilers' packages exist for this system."""
    if sys.platform == "linux":
        return Finding(OK, f"Linux {platform.release()} on {platform.machine()}")
    return Finding(
        STOP, f"this is {platform.system()}: Triton and NVRTC are packaged for Linux alone; use a "
        "Linux machine, or a container or virtual machine of one",
    )  # fmt: skip


def python() -> Finding:
    """Whether the versions in constraints.txt are made for this Python."""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < (3, 13):
        return Finding(OK, f"Python {found}")
    return Finding(
        NOTE, f"Python {found} is newer than what the pinned versions were tried with: if make "
        "cannot install them, name another, as in make PYTHON=python3.12",
    )  # fmt: skip


def disk(folder: Path, missing: list[str]) -> Finding:
    """Whether ``folder`` takes the results, and the environment if packages are ``missing``."""
    if not os.access(folder, os.W_OK):
        return Finding(STOP, f"{folder} cannot be written to: copy the checkout elsewhere")
    free = shutil.disk_usage(folder).free / 1e9
    need = RESULTS_GB + (INSTALLED_GB["gpu" if "torch" in missing else "base"] if missing else 0)
    if free < need:
        return Finding(
            STOP, f"{free:.1f} GB are free in {folder}, and {need} GB are needed: "
            "make room, or copy the checkout elsewhere",
        )  # fmt: skip
    return Finding(OK, f"{folder} can be written to, {free:.0f} GB free ({need} GB needed)")


def missing(group: str) -> list[str]:
    """The packages of ``group`` that are not installed for this Python."""
    return [name for name in machine.group(group) if machine.installed(name) is None]


def in_venv() -> bool:
    """Whether this Python is that of .venv."""
    return ROOT / ".venv" in Path(sys.executable).parents  # sys.prefix is site's work


def packages(group: str) -> Iterator[Finding]:
    """Whether the packages of ``group`` are here, in the pinned versions."""
    names, gone = machine.group(group), missing(group)
    if gone == names or "snakemake" in gone:
        size = INSTALLED_GB[group]
        if (made := ROOT / ".venv" / "pyvenv.cfg").exists() and not in_venv():
            yield Finding(
                NOTE, f"{made.parent} is of another Python than {sys.executable}, and make keeps "
                "it: make distclean removes it first",
            )  # fmt: skip
            return
        yield Finding(
            NOTE, f"the environment is not installed for {sys.executable}: make installs "
            f"{len(names)} pinned packages and what they need into .venv ({size} GB)",
        )  # fmt: skip
        return
    if gone:
        yield Finding(NOTE, f"not installed: {', '.join(gone)}; make installs them into .venv")
    pins = machine.pins()
    here = {name: found for name in names if (found := machine.installed(name))}
    others = [f"{name} {found} for {pins[name]}" for name, found in here.items()
              if found != pins.get(name, found)]  # fmt: skip
    if others:
        yield Finding(
            NOTE, f"other versions than constraints.txt: {', '.join(others)}; results may differ, "
            "make installs the pinned ones into .venv",
        )  # fmt: skip
    if not gone and not others:
        yield Finding(OK, f"all {len(names)} packages of group {group} in their pinned versions")
    if group == "base" and machine.installed("torch") is None:
        yield Finding(
            NOTE, "no PyTorch: make smoke and make test install it, nothing else needs it"
        )


def graphics(gpu: Gpu | None) -> Finding:
    """Whether there is a GPU whose driver loads what is compiled."""
    if gpu is None:
        return Finding(
            NOTE, "no NVIDIA GPU: nothing is measured here, "
            "the recorded measurements are drawn",
        )  # fmt: skip
    if gpu.too_old:
        return Finding(
            STOP, f"{gpu.name} has driver {gpu.driver}, and CUDA 13.0 needs {DRIVER} or newer: "
            'install one, or run make ARGS="--config source=archive"',
        )  # fmt: skip
    return Finding(OK, f"{gpu.name}, driver {gpu.driver} (CUDA 13.0 needs {DRIVER} or newer)")


def archived(gpu: Gpu) -> Finding:
    """Whether there is a recorded run of this GPU to lay beside one of today."""
    name = slug(gpu.name)
    if name in recorded():
        return Finding(OK, f"a run on this GPU is recorded in experiments/archive/{name}")
    known = ", ".join(recorded()) or "none"
    return Finding(
        NOTE, f"no run on this GPU is recorded (recorded: {known}): figures and verdicts stand "
        "alone, or beside another GPU's; snakemake --cores 1 archive records one",
    )  # fmt: skip


def recorded() -> list[str]:
    """The GPUs of which there is an archive that holds a sweep."""
    found = (path.parent for path in ARCHIVES.glob(f"*/{SUMS}"))
    return sorted(folder.name for folder in found if (folder / "raw").is_dir())


def of_gpu(gpu: Gpu) -> Iterator[Finding]:
    """What only matters where something is measured."""
    if gpu.others:
        yield Finding(
            NOTE, f"{gpu.others} other process{'es' * (gpu.others != 1)} on the GPU (nvidia-smi "
            "names them): samples beside them are flagged, wait or stop them",
        )  # fmt: skip
    if machine.installed("torch") and machine.installed("cuda-core"):
        # Not above: it needs the environment.
        from experiments.hardware import torch_cuda, unfit

        problem = unfit()
        yield (
            Finding(STOP, problem)
            if problem
            else Finding(OK, f"PyTorch is built for CUDA {torch_cuda()}, and CUDA finds the GPU")
        )
    if not machine.compiler():
        yield Finding(
            STOP, "no C compiler: Triton compiles the launchers of its kernels with one; "
            "install gcc (apt install gcc, dnf install gcc)",
        )  # fmt: skip
    elif not machine.has_python_headers():
        yield Finding(
            STOP, "no Python.h: Triton's launchers include it; install Python's headers "
            "(apt install python3-dev, dnf install python3-devel)",
        )  # fmt: skip
    else:
        yield Finding(OK, f"{machine.compiler()} compiles the launchers of Triton's kernels")


def tools(gpu: Gpu | None) -> Iterator[Finding]:
    """Whether the GPU's bytes can be counted, and its memory accesses watched."""
    if gpu is None:
        return
    if ncu.installed():
        yield Finding(OK, f"{ncu.version()}: snakemake --cores 1 profile counts here")
    else:
        yield Finding(
            NOTE, "no ncu (Nsight Compute) on PATH: snakemake --cores 1 profile draws the "
            "recorded counts; install it to count here",
        )  # fmt: skip
    if sanitizer.installed():
        yield Finding(OK, f"{sanitizer.version()}: snakemake --cores 1 sanitize watches here")
    else:
        yield Finding(
            NOTE, "no compute-sanitizer on PATH: snakemake --cores 1 sanitize needs it; it comes "
            "with the CUDA toolkit",
        )  # fmt: skip


def browser() -> Finding:
    """Whether there is a browser in which the post can be tested."""
    if found := machine.browser():
        return Finding(OK, f"{found}: make test opens the post in it")
    return Finding(
        NOTE, "no Chromium: make test installs one with apt-get (as root), and nothing else needs "
        "it; or name one, as in CHROMIUM=/path make test",
    )  # fmt: skip


def outlook(gpu: Gpu | None) -> str:
    """What `snakemake --cores 1` does here, and what cannot be asked for."""
    if gpu is None and DEFAULT_ARCHIVE not in recorded():
        return f"make has nothing to draw: no GPU, and no recorded run of '{DEFAULT_ARCHIVE}'"
    if gpu is None:
        return (
            f"make (or snakemake --cores 1) draws the run recorded on {DEFAULT_ARCHIVE}, judges "
            "every claim on it, and sets the paper and the post\n"
            "make smoke and make test run here too; the targets archive, update_archive and tune "
            "need a GPU"
        )
    own, other = ARCHIVES / slug(gpu.name), ARCHIVES / DEFAULT_ARCHIVE
    # An archive that holds a part of the sweeps does not tell how long all of them take.
    timed = own.name if times_all_of(own, other) else other.name
    took = full_run(ARCHIVES / timed)
    wait = f": {took:.0f} minutes on {timed}, checks included" if took else ""
    return (
        f"make (or snakemake --cores 1) measures every sweep on {gpu.name} and draws it{wait}\n"
        'make quick measures less; make ARGS="--config source=archive" draws a recorded run'
    )
