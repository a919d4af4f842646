"""Commands of the artifact, run as a user runs them: in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def environment(cache: Path | None = None) -> dict[str, str]:
    """This environment without Triton's interpreter, which cannot compile; code in ``cache``."""
    kept = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    return kept if cache is None else {**kept, "SOFTMAX_CACHE": str(cache)}


def module(
    *arguments: str | Path, root: Path = ROOT, cache: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m <arguments>`` in ``root``; stderr is part of stdout."""
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=root,
        env=environment(cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
