"""Prints, as JSON, what the compiled forms of triton_attention are made of.

A process of its own: where Triton interprets its kernels it compiles none.
"""

import json
import re
from collections import Counter

from triton.compiler import ASTSource

from kernels.compiled import ptxas_facts
from kernels.specialise import Specialisation
from kernels.triton.triton_attention import (
    HOPPER,
    MANY,
    PLAIN,
    SOME,
    _constants,
    rule,
    specialisations,
)
from kernels.triton_compiler import ALIGNED, TRITON_TYPES, compiled_source

NAMED = re.compile(
    r"\b(wgmma\.mma_async|mma\.sync|tcgen05\.mma|ex2|fma\.rn|cp\.async(?:\.bulk)?|[ls][dt]\.global)\b"
)
A100, SMALL = 163 * 1024, 99 * 1024  # bytes of shared memory a program


def facts(spec: Specialisation, dtype: str, arch: int, odd: bool) -> dict[str, object]:
    """Instructions by name, registers, spills and shared memory of one compilation.

    ``odd``: queries and output lie anywhere; keys and values are copied where they would.
    """
    signature, constants, attributes = {}, {}, {}
    for position, name in enumerate(spec.kernel.arg_names):
        if name in spec.constants:
            signature[name], constants[(position,)] = "constexpr", spec.constants[name]
            continue
        usual = f"*{TRITON_TYPES[dtype]}" if name.endswith("_ptr") else "i32"
        signature[name] = kind = spec.types.get(name, usual).format(dtype=TRITON_TYPES[dtype])
        told = name not in PLAIN and not kind.startswith("tensordesc")
        if told and not (odd and name.startswith(("query", "out"))):
            attributes[(position,)] = ALIGNED
    source = ASTSource(spec.kernel, signature, constants, attributes)
    made, report = compiled_source(source, arch, spec)
    names = Counter(NAMED.findall(made.asm["ptx"]))
    found = ptxas_facts(report, made.metadata.name)
    return {**names, **found, "shared": made.metadata.shared}


# What differs from one compilation to the next: architecture, shared memory of a program, elements
# of a head, queries, keys, and whether it is causal, of bfloat16, and odd.
WANTED = (
    (80, A100, 64, 128, 128, True, True, False),
    (80, SMALL, 128, 128, 128, True, True, False),
    (90, HOPPER, 64, 128, 128, True, True, False),
    (90, HOPPER, 128, 128, 128, False, True, False),
    (90, HOPPER, 64, 128, SOME, True, True, False),
    (90, HOPPER, 64, 128, SOME, False, False, False),
    (90, HOPPER, 128, 64, MANY, True, True, False),
    (90, HOPPER, 128, 128, MANY, False, False, False),
    (90, HOPPER, 128, 128, MANY, True, True, False),
    (90, HOPPER, 64, 128, SOME, True, True, True),
    (100, HOPPER, 64, 128, SOME, True, True, False),
    (100, HOPPER, 128, 128, MANY, True, True, False),
)


def main() -> None:
    made = {}
    for arch, limit, dim, queries, keys, is_causal, wide, odd in WANTED:
        asked = _constants(rule(queries, keys, dim, limit), dim, is_causal)
        (spec,) = (s for s in specialisations(limit) if asked == s.constants)
        dtype, lie = "bfloat16" if wide else "float16", "odd" if odd else "even"
        name = f"sm_{arch} {dtype} {lie} stages={spec.options['num_stages']} {spec.label}"
        made[name] = facts(spec, dtype, arch, odd) | {"dim": dim, "limit": limit}
    print(json.dumps(made))


if __name__ == "__main__":
    main()
