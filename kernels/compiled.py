"""What compiling gives: machine code, what it uses, and a cache of both by content."""

import hashlib
import io
import json
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict

from kernels.registry import ROOT

CACHE = Path(os.environ.get("SOFTMAX_CACHE", ROOT.parent / "results" / "cache"))

FORMAT = 4  # of what the cache stores


class CompileError(RuntimeError):
    """A variant did not compile; the message is the compiler's own."""


@dataclass(frozen=True)
class Job:
    """One compilation: a variant, a dtype and, for Triton, the number of its specialisation."""

    variant: str
    dtype: str
    arch: str
    number: int = 0


@dataclass(frozen=True)
class Resources:
    """One row of resources.csv; registers, bytes of spills and of local memory are per thread.

    ``edges``: of the two forms of a kernel (Launch.whole) it is the one that looks for row ends.
    """

    arch: str
    variant: str
    framework: str
    dtype: str
    specialisation: str = ""
    cols_held: int = 0
    edges: bool = False
    threads: int = 0
    status: str = "ok"
    reason: str = ""
    registers: int | None = None
    spill_bytes: int | None = None
    static_shared_bytes: int | None = None
    dynamic_shared_bytes: int | None = None
    local_bytes: int | None = None
    code_bytes: int | None = None
    compiler: str = ""


@dataclass(frozen=True)
class Kernel:
    """A kernel in a cubin: its symbol there and what it uses."""

    symbol: str
    resources: Resources


@dataclass(frozen=True)
class Compiled:
    """Machine code of one job, and the kernels in it."""

    cubin: bytes
    kernels: tuple[Kernel, ...]


def cached(key: str, compile_now: Callable[[], Compiled]) -> Compiled:
    """What ``compile_now`` gave for ``key`` before, or gives now."""
    code, facts = CACHE / f"{key}.cubin", CACHE / f"{key}.json"
    if facts.exists() and code.exists():
        stored = json.loads(facts.read_text())
        kernels = (Kernel(k["symbol"], Resources(**k["resources"])) for k in stored)
        return Compiled(code.read_bytes(), tuple(kernels))
    made = compile_now()
    CACHE.mkdir(parents=True, exist_ok=True)
    write(code, made.cubin)
    write(facts, json.dumps([asdict(kernel) for kernel in made.kernels]).encode())
    return made


def write(path: Path, content: bytes) -> None:
    """All of ``content`` or nothing: other processes may be reading."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
        part.write(content)
    Path(part.name).replace(path)


def content_key(*parts: object) -> str:
    """A name for everything that decides what a compiler makes."""
    return hashlib.sha256("\0".join(map(str, (FORMAT, *parts))).encode()).hexdigest()


class PtxasFacts(TypedDict):
    """The columns of Resources that the assembler reports."""

    registers: int
    spill_bytes: int
    local_bytes: int
    static_shared_bytes: int


def ptxas_facts(log: str, symbol: str) -> PtxasFacts:
    """Registers, spills, local and static shared memory of ``symbol`` in ``ptxas -v``'s report."""
    _, found, log = log.partition(f"Compiling entry function '{symbol}'")
    if not found:
        raise CompileError(f"ptxas -v did not report {symbol}")
    log = log.partition("Compiling entry function")[0]

    def number(pattern: str, default: int | None = None) -> int:
        if match := re.search(pattern, log):
            return int(match[1])
        if default is None:
            raise CompileError(f"ptxas -v did not report '{pattern}'; it said: {log.strip()}")
        return default

    stores, loads = number(r"(\d+) bytes spill stores"), number(r"(\d+) bytes spill loads")
    return {
        "registers": number(r"Used (\d+) registers"),
        "spill_bytes": stores + loads,
        "local_bytes": number(r"(\d+) bytes stack frame"),
        "static_shared_bytes": number(r"(\d+) bytes smem", 0),
    }


def code_bytes(cubin: bytes, symbol: str) -> int:
    """Bytes of machine code of kernel ``symbol``."""
    from elftools.elf.elffile import ELFFile

    section = ELFFile(io.BytesIO(cubin)).get_section_by_name(f".text.{symbol}")
    if section is None:
        raise CompileError(f"the cubin has no code for {symbol}")
    return section["sh_size"]
