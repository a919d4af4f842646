"""The frontier's kernels compiled by this machine's compiler: their shapes, and memory for rows."""

import ctypes
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from kernels.cuda_compiler import C_TYPES
from kernels.frontier.operators import Operator
from kernels.frontier.plans import (
    ALIKE,
    APART,
    HERE,
    NONE,
    VECTOR_BYTES,
    Plan,
    Shape,
    staged_bytes,
)
from kernels.registry import Launch, Variant
from tests.kernels.host import library

# Of 16 bits one dtype will do: float16 does not run on the host.
KINDS = ("float32", "bfloat16")
SHAPES: dict[str, tuple[Shape, tuple[int, ...]]] = {
    "warp": (Shape("warp", (32, 64)), (1, 7, 31, 64, 200, 250)),
    "late": (Shape("warp", (32, 64), together=2, early=False), (1, 7, 31, 64, 200, 250)),
    "block": (Shape("block", (64, 1)), (1, 63, 256, 257, 900)),
    "twice": (Shape("block", (64, 1), exchanges=2), (1, 63, 256, 257, 900)),
    "raw": (Shape("block", (64, 1), raw=True), (1, 63, 256, 257, 900)),
    "cluster": (Shape("cluster", (32, 4, 1)), (1, 63, 256, 257, 900, 5000)),
    "staged": (Shape("staged", (64, 1, 1)), (1, 7, 8, 63, 256, 257, 900, 5000)),
    "staged in a cluster": (Shape("staged", (32, 4, 1)), (1, 7, 8, 63, 256, 257, 900, 5000)),
    "stream": (Shape("stream", (64,)), (1, 63, 1024, 1003, 5000)),
}
CLUSTERS = ("cluster", "staged")  # launched twice: exchange_on_the_host.cuh
# What PTX does, in C++.
IN_CPP = {
    'asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));': "power = std::exp2(v);",
    'asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));': "power = std::log2(v);",
    'asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(one_over) : "f"(v));': "one_over = 1 / v;",
    'asm("max.NaN.f32 %0, %1, %2;" : "=f"(max) : "f"(a), "f"(b));': "max = a > b || a!=a ? a : b;",
    'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), '
    '"l"(from)\n                 : "memory");': "copy_later(to, from);",
    'asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(shared_address(to)),\n'
    '                 "l"(from)\n                 : "memory");': (
        "copy_later(to, static_cast<const uint4 *>(from));"
    ),
    'asm volatile("ld.global.L2::256B.v4.b32 {%0, %1, %2, %3}, [%4];"\n'
    '                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)\n'
    '                 : "l"(at)\n                 : "memory");': (
        "v = *static_cast<const uint4 *>(at);"
    ),
    'asm volatile("cp.async.wait_all;" ::: "memory");': "copy_now();",
    'asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));': "policy = 1;",
    'asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));': "policy = 2;",
    'asm volatile("ld.global.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"\n'
    '                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)\n'
    '                 : "l"(at), "l"(policy)\n                 : "memory");': (
        "v = *static_cast<const uint4 *>(at);"
    ),
    'asm volatile("st.global.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(at), '
    '"r"(v.x),\n                 "r"(v.y), "r"(v.z), "r"(v.w), "l"(policy)\n'
    '                 : "memory");': "*static_cast<uint4 *>(at) = v;",
    'asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.x), "r"(v.y), '
    '"r"(v.z),\n                 "r"(v.w)\n'
    '                 : "memory");': "*static_cast<uint4 *>(at) = v;",
    'asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(to),\n'
    '                 "l"(beside(number, p.max)), "l"(beside(number, p.sum))\n'
    '                 : "memory");': "*to = {beside(number, p.max), beside(number, p.sum)};",
    'asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"\n'
    '                                 : "=l"(max[i]), "=l"(sum[i])\n'
    '                                 : "l"(posted + first + 32 * i)\n'
    '                                 : "memory");': (
        "max[i] = posted[first + 32 * i].max, sum[i] = posted[first + 32 * i].sum;"
    ),
    'asm volatile("{\\n"\n                     ".reg .pred mine;\\n"\n'
    '                     "setp.ne.b32 mine, %5, 0;\\n"\n'
    '                     "@mine st.global.v4.b32 [%0], {%1, %2, %3, %4};\\n"\n'
    '                     "}" ::"l"(out + head + k * WIDTH<T>),\n'
    '                     "r"(vector.x), "r"(vector.y), "r"(vector.z), "r"(vector.w), '
    '"r"(int(k < last))\n'
    '                     : "memory");': "store(out, k, 0, last, vector);",
    "extern __shared__ uint4 image[];": "uint4 *image = dynamic_shared + GUARD;",
}
CALL = """extern "C" void call{number}(
        int blocks, int threads, int shared, const {t} *x, {t} *out, long long x_stride,
        long long out_stride, int cols, long long rows, void **given) {{
    dynamic_vectors = shared / 16;
    launch(blocks, threads, [=] {{ {kernel}(x, out, x_stride, out_stride, cols, rows{given}); }});
}}
"""


class Kernels:
    """Kernels of ``shape``'s regime for elements of ``kind``, compiled in ``folder``."""

    def __init__(self, shape: Shape, kind: str, plans: Iterable[Plan], folder: Path):
        self.shape = shape
        self.numbers = {plan: number for number, plan in enumerate(dict.fromkeys(plans))}
        calls = '#include "operators.cuh"\n' + "".join(
            CALL.format(
                number=number, t=C_TYPES[kind], kernel=plan.expression(C_TYPES[kind]),
                given="".join(f", *({t} *)given[{i}]" for i, t in enumerate(plan.given)),
            )
            for plan, number in self.numbers.items()
        )  # fmt: skip
        self.code = library(in_cpp(shape.regime, folder), calls, folder)

    def run(
        self, plan: Plan, x: Tensor, out: Tensor, operator: Operator | None = None,
        mask: Tensor | None = None,
    ) -> None:  # fmt: skip
        """Write the results of ``x`` to ``out``."""
        (rows, cols), shape, size = x.shape, self.shape, x.element_size()
        blocks = rows
        if shape.regime == "warp":
            blocks = -(-rows // (plan.threads // shape.sizes[0] * shape.together))
        blocks *= shape.sizes[1] if shape.regime in CLUSTERS else 1
        shared = staged_bytes(shape, cols, size, plan.edges) if shape.regime == "staged" else 0
        given = operator.arguments() if operator else []
        address = 0 if mask is None else mask.data_ptr()
        values = (ctypes.c_int64 * len(given))(*(address if v is None else v for v in given))
        places = (ctypes.c_void_p * len(given))(
            *(ctypes.addressof(values) + 8 * i for i in range(len(given)))
        )
        for _ in range(1 + (shape.regime in CLUSTERS)):
            self.code[f"call{self.numbers[plan]}"](
                blocks, plan.threads, shared,
                *(ctypes.c_void_p(t.data_ptr()) for t in (x, out)),
                *(ctypes.c_longlong(t.stride(0)) for t in (x, out)),
                ctypes.c_int(cols), ctypes.c_longlong(rows), places,
            )  # fmt: skip

    def watch(self, x: Tensor, memory: Tensor) -> None:
        """Have loads counted that lie in ``memory`` and not in a row of ``x``."""
        size = x.element_size()
        ctypes.c_void_p.in_dll(self.code, "input").value = memory.data_ptr()
        for name, value in {
            "size": memory.nbytes, "before": x.data_ptr() - memory.data_ptr(),
            "row": x.shape[1] * size, "stride": x.stride(0) * size,
        }.items():  # fmt: skip
            ctypes.c_longlong.in_dll(self.code, name).value = value

    def faults(self) -> dict[str, int]:
        """What a GPU would have stopped at, by kind."""
        kinds = ("misaligned", "outside", "beyond")
        return {kind: ctypes.c_int.in_dll(self.code, kind).value for kind in kinds}


def layouts(rows: int, cols: int, dtype: torch.dtype) -> Iterator[tuple[Tensor, ...]]:
    """x, the place of the results, and the memory around both: NaN, and full of 7."""
    width = VECTOR_BYTES // dtype.itemsize
    apart = [((0, 0), (1, out)) for out in range(width)] + [
        ((1, 0), (before, 0)) for before in (0, 3)
    ]
    for gaps, offsets in (((0, 0), (0, 0)), ((0, 0), (1, 1)), ((3, 3), (2, 2)), *apart):
        x, out = (
            torch.full((rows * (cols + gap) + 200,), fill, dtype=dtype)
            for gap, fill in zip(gaps, (torch.nan, 7.0), strict=True)
        )
        placed = [
            memory.as_strided((rows, cols), (cols + gap, 1), _aligned(memory) + 64 + offset)
            for memory, gap, offset in zip((x, out), gaps, offsets, strict=True)
        ]
        placed[0].copy_(4 * torch.randn(rows, cols))
        yield *placed, x, out


def _aligned(memory: Tensor) -> int:
    """Elements up to a line of 128 bytes."""
    return -memory.data_ptr() % 128 // memory.element_size()


def edges_of(x: Tensor, out: Tensor) -> int:
    """What rows that lie as these have outside their vectors."""
    size = x.element_size()
    starts = [
        {(t.data_ptr() + r * t.stride(0) * size) % VECTOR_BYTES for r in range(len(x))}
        for t in (x, out)
    ]
    if starts == [{0}, {0}] and x.shape[1] * size % VECTOR_BYTES == 0:
        return NONE
    apart = (x.data_ptr() - out.data_ptr()) | (x.stride(0) - out.stride(0)) * size
    return APART if apart % VECTOR_BYTES else ALIKE


def in_cpp(name: str, folder: Path) -> Variant:
    """The kernel in file ``name``, with what a C++ compiler does not know put otherwise."""
    left = set(IN_CPP)
    for path in HERE.glob("*.cu*"):
        text = path.read_text()
        for ptx in [ptx for ptx in IN_CPP if ptx in text]:
            text = text.replace(ptx, IN_CPP[ptx])
            left.discard(ptx)
        (folder / path.name).write_text(text)
    assert not left
    if name in CLUSTERS:
        shutil.copy(Path(__file__).with_name("exchange_on_the_host.cuh"), folder / "exchange.cuh")
    return Variant(f"frontier_{name}", str(folder / f"{name}.cu"), "-", reads=1, writes=1,
                   teaches="", launch=Launch())  # fmt: skip
