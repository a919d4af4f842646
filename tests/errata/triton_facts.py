"""Prints, as JSON, what Triton compiles of S1's kernel: keys, machine code, threads a program.

A process of its own: where Triton interprets its kernels it compiles none.
"""

import hashlib
import json

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

ROWS = (1, 1000, 8192)
BLOCKS = (64, 1024, 32_768)
TARGET = GPUTarget("cuda", 90, 32)


@triton.jit
def kernel(x_ptr, out_ptr, n_rows, n_cols: tl.constexpr, BLOCK: tl.constexpr):
    """S1's fast path: ``n_rows`` is an argument that nothing reads."""
    lane = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n_cols + lane
    x = tl.load(x_ptr + at, mask=lane < n_cols, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + at, numerator / tl.sum(numerator, axis=0), mask=lane < n_cols)


def source(rows: int | None, cols: int, block: int) -> ASTSource:
    """With ``rows`` a compile-time constant, or, if None, an argument."""
    signature = {"x_ptr": "*fp16", "out_ptr": "*fp16"}
    signature |= {"n_rows": "i32", "n_cols": "constexpr", "BLOCK": "constexpr"}
    constants = {(3,): cols, (4,): block}
    if rows is not None:
        signature["n_rows"], constants = "constexpr", {(2,): rows, **constants}
    return ASTSource(kernel, signature, constants)


def compiled(rows: int | None, block: int, **options: int) -> triton.compiler.CompiledKernel:
    return triton.compile(source(rows, block, block), target=TARGET, options=options)


def threads(block: int, **options: int) -> int:
    """Threads a program, as the machine code demands them."""
    ptx = compiled(None, block, **options).asm["ptx"]
    return int(ptx.partition(".reqntid ")[2].split()[0])


def digest(code: bytes) -> str:
    return hashlib.sha256(code).hexdigest()


if __name__ == "__main__":
    constant = [compiled(rows, 1024) for rows in ROWS]
    facts = {
        "keys of a constant": len({made.hash for made in constant}),
        "codes of a constant": len({digest(made.asm["cubin"]) for made in constant}),
        "keys of an argument": len({compiled(None, 1024).hash for _ in ROWS}),
        "threads by default": [threads(block) for block in BLOCKS],
        "threads of 32 warps": threads(1024, num_warps=32),
    }
    print(json.dumps(facts))
