"""A fresh copy of the checkout, and Snakemake in it."""

import shutil
import subprocess
from pathlib import Path

from kernels.compiled import CACHE
from tests.commands import ROOT, module


def checkout(folder: Path) -> Path:
    """What a commit of this working tree would hold, without its tests and archives."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        left_out = name.startswith(("tests/", "experiments/archive/"))
        if (ROOT / name).is_file() and not left_out:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def snakemake(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Snakemake in ``root`` on two cores; stderr is part of stdout.

    Compiled code is kept by content, so a copy may use what this checkout compiled.
    """
    return module("snakemake", "--cores", "2", *arguments, root=root, cache=CACHE)
