"""What this machine is, asked with the standard library before anything is installed."""

import os
import re
import shutil
import subprocess
import sysconfig
import tomllib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parent.parent
# The first driver that loads code made for CUDA 13.0.
DRIVER = 580
# What Debian, other systems and Google call it.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# What is drawn where nothing can be measured.
DEFAULT_ARCHIVE = "nvidia-h200"


@dataclass(frozen=True)
class Gpu:
    """The first GPU; ``driver`` is a whole version, as in '580.159.04'.

    ``others`` counts the processes that compute on it.
    """

    name: str
    driver: str
    others: int = 0

    @property
    def too_old(self) -> bool:
        """Whether the driver cannot load what the build compiles."""
        major = self.driver.split(".")[0]
        return major.isdigit() and int(major) < DRIVER


def first_gpu() -> Gpu | None:
    """The GPU that would be measured; None where there is none.

    NVML is what the workflow asks; nvidia-smi knows the same without any package.
    """
    try:
        return _by_nvml()
    except ImportError:
        return _by_nvidia_smi()


def _by_nvml() -> Gpu | None:
    import pynvml

    try:
        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        name, driver = pynvml.nvmlDeviceGetName(gpu), pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError:
        return None
    try:
        running = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)
    except pynvml.NVMLError:  # not every GPU tells
        running = []
    return Gpu(name, driver, len(running))


def _by_nvidia_smi() -> Gpu | None:
    told = nvidia_smi("--query-gpu=name,driver_version")
    if not told or "," not in told[0]:
        return None
    name, driver = (cell.strip() for cell in told[0].rsplit(",", 1))
    return Gpu(name, driver, len(nvidia_smi("--query-compute-apps=pid")))


def nvidia_smi(query: str) -> list[str]:
    """The lines of nvidia-smi's answer about the first GPU; none where it fails or is missing."""
    command = ["nvidia-smi", query, "--format=csv,noheader", "--id=0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    # nvidia-smi may be installed where no GPU is: it then fails, and prints why.
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return [line for line in lines if line.strip()]


def group(name: str) -> list[str]:
    """The packages of group ``name`` of pyproject.toml, those of its own groups included."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    found: list[str] = []
    for entry in groups[name]:
        found += group(entry["include-group"]) if isinstance(entry, dict) else [_package(entry)]
    return found


def _package(requirement: str) -> str:
    """'cuda-core' of 'cuda-core[cu13]'."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def pins() -> dict[str, str]:
    """Package to version, as constraints.txt has them."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==", 1) for line in lines if "==" in line and not line.startswith("#"))
    return {name: pin.strip() for name, pin in pairs}


def installed(package: str) -> str | None:
    """The version of ``package`` here without its build ('2.13.0' of '2.13.0+cpu'), or None."""
    try:
        return version(package).split("+")[0]
    except PackageNotFoundError:
        return None


def browser() -> str | None:
    """The Chromium that CHROMIUM names, or one that is installed; None where there is none."""
    named = os.environ.get("CHROMIUM")
    found = map(shutil.which, [named] if named else BROWSERS)
    return next(filter(None, found), None)


def compiler() -> str | None:
    """The C compiler that Triton would call for a kernel's launcher, or None."""
    return shutil.which("gcc") or shutil.which("clang")


def has_python_headers() -> bool:
    """Whether Python.h is here: Triton's launchers include it."""
    return Path(sysconfig.get_paths()["include"], "Python.h").exists()
