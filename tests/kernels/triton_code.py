"""Prints, as JSON, how the compiled forms of Triton's kernels for all widths load and store.

A process of its own: where Triton interprets its kernels it compiles none.
"""

import json
import re
from collections import Counter

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels.registry import ELEMENT_BYTES
from kernels.specialise import Specialisation
from kernels.triton import triton_grid, triton_held
from kernels.triton.triton_grid import Dealt
from kernels.triton.triton_held import Held
from kernels.triton_compiler import TRITON_TYPES

COLS = 50_257


def accesses(spec: Specialisation, dtype: str) -> dict[str, int]:
    """Instructions of the PTX for sm_90 by name, such as ld.global.v4.b32; ex2 of any kind."""
    signature, constants = {}, {}
    for position, name in enumerate(spec.kernel.arg_names):
        if name in spec.constants:
            signature[name], constants[(position,)] = "constexpr", spec.constants[name]
        else:
            usual = f"*{TRITON_TYPES[dtype]}" if name.endswith("_ptr") else "i32"
            signature[name] = spec.types.get(name, usual)
    made = triton.compile(
        ASTSource(spec.kernel, signature, constants),
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": spec.num_warps, **spec.options},
    )
    return Counter(re.findall(r"ex2|(?:ld|st|atom)\.[\w.]*global[\w.:]*", made.asm["ptx"]))


def main() -> None:
    facts = {}
    for dtype, size in ELEMENT_BYTES.items():
        for raw in (False, True)[: 4 // size]:
            held, dealt = Held(512, 1, 16, raw=raw), Dealt(4, 8, 2, raw)
            for alike in (True, False):
                spec = triton_held.specialise(held, COLS, size, True, alike)
                facts[f"held {dtype} {raw:d} {alike:d}"] = accesses(spec, dtype)
            twice = triton_held.specialise(held._replace(twice=3), COLS, size, True)
            facts[f"twice {dtype} {raw:d} 1"] = accesses(twice, dtype)
            facts[f"grid {dtype} {raw:d} 1"] = accesses(
                triton_grid.specialise(dealt, 4 * COLS, size, True), dtype
            )
        several = triton_held.specialise(Held(8, 32, 4), 63, size, True)
        facts[f"several {dtype} 0 1"] = accesses(several, dtype)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
