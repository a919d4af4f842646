"""A CUDA kernel compiled by the C++ compiler of this machine, and run without a GPU.

Its blocks run one thread after the other (tests/kernels/on_the_host.cu).
"""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from kernels.registry import Variant

HERE = Path(__file__).parent
HEADERS = ("cuda_bf16.h", "cuda_fp16.h", "math_constants.h")
OPTIONS = (
    *("-std=c++17", "-O1", "-fno-strict-aliasing", "-Wno-unknown-pragmas", "-shared", "-fPIC"),
    "-fno-gnu-unique",  # else all libraries would share the shared memory of the first
)


def library(v: Variant, calls: str, folder: Path) -> ctypes.CDLL:
    """The file of ``v`` and ``calls``, C++ functions that launch it, compiled in ``folder``."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    assert v.launch is not None
    for header in HEADERS:
        (folder / header).touch()
    (folder / f"{v.name}.calls").write_text(calls)
    named = (f'KERNEL="{v.path.name}"', f'CALLS="{v.name}.calls"')
    macros = [f"-D{macro}" for macro in (*v.launch.defines, *named)]
    command = [compiler, *OPTIONS, *macros, f"-I{folder}", f"-I{v.path.parent}", "-x", "c++"]
    made = folder / f"{v.name}.so"
    subprocess.run([*command, HERE / "on_the_host.cu", "-o", made], check=True)
    return ctypes.CDLL(str(made))
