"""What NVRTC makes of CUDA C++: registers, spills and instructions, without a GPU."""

import io
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernels.compiled import CompileError
from kernels.cuda_compiler import _cuda_headers

A100, H100, RTX_2080, RTX_3090 = "sm_80", "sm_90", "sm_75", "sm_86"
ROWS = Path(__file__).with_name("rows.cu")
OUT_OF_RANGE = "threads per SM for entry"


@dataclass(frozen=True)
class Code:
    """Of one kernel: registers and bytes of spill stores and loads a thread, and its machine code.

    ``instructions`` counts the opcodes of the machine code, modifiers and all.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    instructions: Counter[str]
    listing: str


@cache
def rows(names: tuple[str, ...], arch: str = A100) -> dict[str, Code]:
    """The kernels ``names`` of rows.cu; raises CompileError with the compiler's message."""
    return compiled(ROWS.read_text(), names, arch)


def compiled(source: str, names: tuple[str, ...], arch: str = A100) -> dict[str, Code]:
    """The kernels ``names`` of ``source``; raises CompileError with the compiler's message."""
    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(
        name="errata.cu", arch=arch, std="c++17", ptxas_options=["-v"],
        include_path=[_cuda_headers()],
    )  # fmt: skip
    log = io.StringIO()
    try:
        program = Program(source, "c++", options)
        code = program.compile("cubin", name_expressions=names, logs=log)
    except Exception as error:  # cuda.core raises several types; each carries NVRTC's log
        raise CompileError(str(error)) from error
    cubin, report = bytes(code.code), log.getvalue()
    if OUT_OF_RANGE in report:
        raise CompileError(report)
    symbols = {name: code.symbol_mapping[name] for name in names}
    return {
        name: _code(cubin, report, symbol.decode() if isinstance(symbol, bytes) else symbol)
        for name, symbol in symbols.items()
    }


def threads_a_multiprocessor(arch: str) -> int:
    """The most threads that the assembler lets blocks of 512 share a multiprocessor of ``arch``."""
    fitting = 1
    while _fit(fitting + 1, arch):
        fitting += 1
    return 512 * fitting


def _fit(blocks: int, arch: str) -> bool:
    source = f"template <int> __global__ void __launch_bounds__(512, {blocks}) kernel() {{}}"
    try:
        compiled(source, ("kernel<0>",), arch)
    except CompileError as error:
        if OUT_OF_RANGE not in str(error):
            raise
        return False
    return True


def _code(cubin: bytes, report: str, symbol: str) -> Code:
    _, found, mine = report.partition(f"Compiling entry function '{symbol}'")
    assert found, report
    mine = mine.partition("Compiling entry function")[0]

    def number(pattern: str) -> int:
        match = re.search(pattern, mine)
        assert match, f"no '{pattern}' in {mine}"
        return int(match[1])

    listing = disassembled(cubin, symbol)
    return Code(
        registers=number(r"Used (\d+) registers"),
        spill_stores=number(r"(\d+) bytes spill stores"),
        spill_loads=number(r"(\d+) bytes spill loads"),
        instructions=opcodes(listing),
        listing=listing,
    )


def opcodes(listing: str) -> Counter[str]:
    """How often each opcode occurs, modifiers and all."""
    pattern = r"/\*[0-9a-f]{4,5}\*/\s+(?:@!?U?P\d+ )?([A-Z][\w.]*)"
    return Counter(re.findall(pattern, listing))


def disassembled(cubin: bytes, symbol: str = "") -> str:
    """The machine code of ``symbol``, or of every kernel of ``cubin``, a heading each."""
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        only = ["--function", symbol] if symbol else []
        command = [knobs.nvidia.cuobjdump.path, "--dump-sass", *only, file.name]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
