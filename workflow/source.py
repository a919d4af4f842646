"""Which data a run shows: resolved once, when the workflow is read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from experiments.hardware import gpu_name
from experiments.listing import BadArchive, sums
from kernels.names import slug
from workflow.machine import DEFAULT_ARCHIVE, DRIVER

ROOT = Path(__file__).parent.parent
ARCHIVES = ROOT / "experiments" / "archive"
SCHEMA = Path(__file__).parent / "schemas" / "config.schema.yaml"
CUDA = 13000


class BadConfig(ValueError):
    """A configuration cannot be used; the message says what came and what is known."""


@dataclass(frozen=True)
class Source:
    """Where the data of a run come from; ``name`` is its folder under results/."""

    name: str
    gpu: str
    local: bool

    @property
    def archive(self) -> Path:
        """The archive folder that is read, or that a local run is packed into."""
        return ARCHIVES / self.gpu

    def holds(self, file: str) -> bool:
        """Whether ``file`` can be had: a GPU can make any, an archive has what was recorded."""
        return self.local or file in recorded(self.gpu)

    def measures(self, sweep: str) -> bool:
        """Whether the samples of ``sweep`` can be had."""
        return self.holds(f"raw/{sweep}.csv.gz")


def validate(config: Mapping[str, Any]) -> None:
    """Raise BadConfig naming the first key or value that the schema does not know."""
    schema = yaml.safe_load(SCHEMA.read_text())
    known = schema["properties"]
    if unknown := sorted(set(config) - set(known)):
        raise BadConfig(
            f"unknown config key '{unknown[0]}'; known: {', '.join(known)} (config/README.md)"
        )
    for error in jsonschema.Draft202012Validator(schema).iter_errors(dict(config)):
        key = error.path[0] if error.path else "config"
        if error.validator == "required":
            raise BadConfig(f"config: {error.message} (config/README.md)")
        expected = error.schema["description"]
        raise BadConfig(f"unknown {key} '{error.instance}'; expected {expected} (config/README.md)")


def check_driver() -> None:
    """Raise BadConfig where the driver is older than the CUDA that the kernels are built for."""
    import pynvml

    supported = pynvml.nvmlSystemGetCudaDriverVersion()
    if supported < CUDA:
        raise BadConfig(
            f"the GPU's driver supports CUDA {supported // 1000}.{supported % 1000 // 10}, the "
            f"kernels are built for CUDA 13.0: install driver {DRIVER} or newer, or use "
            "--config source=archive"
        )


def archives() -> list[str]:
    """The GPUs of which there is an archive."""
    return sorted(p.parent.name for p in ARCHIVES.glob("*/SHA256SUMS"))


def recorded(gpu: str) -> list[str]:
    """The files that the archive of ``gpu`` lists; raises BadConfig where its list is none."""
    try:
        return list(sums(ARCHIVES / gpu))
    except BadArchive as error:
        raise BadConfig(str(error)) from error


def resolve(config: Mapping[str, Any]) -> Source:
    """The source that ``config`` asks for on this machine."""
    validate(config)
    wanted, name = config["source"], gpu_name()
    if wanted == "local" and name is None:
        raise BadConfig("source=local needs an NVIDIA GPU and its driver; use source=archive")
    if name and wanted in ("auto", "local"):
        check_driver()
        suffix = "" if config["mode"] == "full" else f"-{config['mode']}"
        return Source(f"local-{slug(name)}{suffix}", slug(name), local=True)
    gpu = wanted.removeprefix("archive-") if wanted.startswith("archive-") else DEFAULT_ARCHIVE
    if gpu not in archives():
        raise BadConfig(f"no archive of '{gpu}'; known: {', '.join(archives()) or 'none'}")
    return Source(f"archive-{gpu}", gpu, local=False)
