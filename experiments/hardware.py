"""Static facts of a source: GPU, driver, versions, code.  No host name, no serial number.

python -m experiments.hardware --source local-nvidia-h200 --mode full --out hardware.json
"""

import hashlib
import importlib.util
import json
import platform
import re
import runpy
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.sweeps import MODES

ROOT = Path(__file__).parent.parent
PACKAGES = (
    *("torch", "triton", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime"),
    *("numpy", "pandas", "nvidia-ml-py", "snakemake"),
    *("liger-kernel", "quack-kernels", "nvidia-cutlass-dsl", "flashinfer-python"),
)
# What differs between two runs of one environment, or (source) between a run and its archive.
RUN_FACTS = ("measured_utc", "code_commit", "mode", "source", "earlier")


def gpu_name(index: int = 0) -> str | None:
    """The GPU's name, or None where there is no GPU or no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(index))
    except pynvml.NVMLError:
        return None


def gpu_of(source: str) -> str:
    """The GPU's slug in a source's name: 'nvidia-h200' of 'local-nvidia-h200-quick'."""
    return re.sub(rf"^(local|archive)-|-({'|'.join(MODES)})$", "", source)


def commit(but: str = "") -> str:
    """The commit of this checkout, '-dirty' where tracked files differ, 'unknown' without git.

    Files that the pathspec ``but`` matches may differ.
    """
    away = [f":(exclude){but}"] if but else []
    try:
        head = _git("rev-parse", "HEAD")
        differ = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", *away)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}-dirty" if differ else head


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def environment_sha256(facts: dict[str, Any]) -> str:
    """A hash of everything in hardware.json that does not change from run to run."""
    lasting = {k: v for k, v in facts.items() if k not in RUN_FACTS}
    return hashlib.sha256(json.dumps(lasting, sort_keys=True).encode()).hexdigest()


def of_sweep(facts: dict[str, Any], sweep: str) -> dict[str, Any]:
    """Those facts of an archive that ``sweep`` was measured with: it may be kept of an earlier run.

    ``facts["earlier"]`` has the facts of such runs by sweep, and by the name of another table.
    """
    now = {key: value for key, value in facts.items() if key != "earlier"}
    return {**facts.get("earlier", {}).get(sweep, now), "source": facts["source"]}


def collect(source: str, mode: str, seed: int) -> dict[str, Any]:
    """The facts, as JSON types; ``gpu`` is None on a machine without one."""
    return {
        "source": source,
        "mode": mode,
        "seed": seed,
        "measured_utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "code_commit": commit(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cpu": _cpu(),
        "packages": {name: _version(name) for name in PACKAGES},
        "gpu": gpu_name(),
        **(_gpu_facts() if gpu_name() else {}),
    }


def unfit() -> str:
    """Why nothing can be measured on this machine's GPU, or an empty string."""
    if not torch_cuda():
        return (
            f"PyTorch {_version('torch')} is a CPU build: install the CUDA build of "
            "constraints.txt, or use --config source=archive"
        )
    try:
        _cuda_facts()
    except Exception as error:  # cuda.core raises several types
        return (
            f"CUDA finds no usable GPU ({error}): compare the driver with CUDA {torch_cuda()}, "
            "and look at CUDA_VISIBLE_DEVICES"
        )
    return ""


def torch_cuda() -> str | None:
    """The CUDA version that PyTorch is built for; None for a CPU build, or where it is missing."""
    if not (found := importlib.util.find_spec("torch")) or not found.origin:
        return None
    # Importing torch for one word takes seconds.
    return runpy.run_path(str(Path(found.origin).with_name("version.py")))["cuda"]


def _gpu_facts(index: int = 0) -> dict[str, Any]:
    import pynvml as nvml

    gpu = nvml.nvmlDeviceGetHandleByIndex(index)

    def ask(query, *args: object) -> Any:
        try:
            return query(gpu, *args)
        except nvml.NVMLError:
            return None

    clocks = {"sm": nvml.NVML_CLOCK_SM, "memory": nvml.NVML_CLOCK_MEM}
    memory = ask(nvml.nvmlDeviceGetMemoryInfo)
    uuid = ask(nvml.nvmlDeviceGetUUID) or ""
    return {
        # Tells two cards apart without naming either.
        "gpu_id": hashlib.sha256(f"softmax-roofline {uuid}".encode()).hexdigest()[:16],
        "driver": nvml.nvmlSystemGetDriverVersion(),
        "driver_cuda": nvml.nvmlSystemGetCudaDriverVersion(),
        "vbios": ask(nvml.nvmlDeviceGetVbiosVersion),
        "compute_capability": ask(nvml.nvmlDeviceGetCudaComputeCapability),
        "memory_bytes": memory.total if memory else None,
        "ecc": ask(nvml.nvmlDeviceGetEccMode),
        "mig": ask(nvml.nvmlDeviceGetMigMode),
        "power_limit_w": (ask(nvml.nvmlDeviceGetPowerManagementLimit) or 0) / 1000 or None,
        "max_clock_mhz": {k: ask(nvml.nvmlDeviceGetMaxClockInfo, v) for k, v in clocks.items()},
        **_cuda_facts(index),
    }


def _cuda_facts(index: int = 0) -> dict[str, Any]:
    from cuda.core import Device

    properties = Device(index).properties
    return {
        "multiprocessors": properties.multiprocessor_count,
        "l2_bytes": properties.l2_cache_size,
        "torch_cuda": torch_cuda(),
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    match = re.search(r"model name\s*:\s*(.+)", text)
    return match[1].strip() if match else platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def main(
    source: Annotated[str, typer.Option()],
    mode: Annotated[str, typer.Option()],
    out: Annotated[Path, typer.Option()],
    seed: Annotated[int, typer.Option()] = 1,
) -> None:
    """Write the facts of this machine to a JSON file."""
    if source != "local-cpu" and (problem := unfit()):
        print(problem)
        raise typer.Exit(2)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(collect(source, mode, seed), indent=2) + "\n")


if __name__ == "__main__":
    typer.run(main)
