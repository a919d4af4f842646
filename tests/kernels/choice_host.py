"""Top-k and sampling on this machine: their own launches, of kernels that its compiler made."""

import ctypes
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.cuda_compiler import C_TYPES
from kernels.frontier import choice, frontier
from kernels.frontier.choice_plans import FILES, PLANS, ChoicePlan
from kernels.frontier.plans import HERE
from kernels.registry import Launch, Variant
from tests.kernels.frontier_host import IN_CPP
from tests.kernels.host import library

# Of 16 bits one dtype will do: float16 does not run on the host.
KINDS = ("float32", "bfloat16")
MORE = "choice_on_the_host.cuh"
CALL = """extern "C" void call{number}(int blocks, int threads, const long long *slots) {{
    run({kernel}, blocks, threads, slots);
}}
"""
PHILOX = """extern "C" void numbers(unsigned *counter, unsigned key0, unsigned key1) {
    philox(*reinterpret_cast<unsigned(*)[4]>(counter), key0, key1);
}
extern "C" float noise(unsigned word) { return gumbel(word); }
extern "C" float noise_bound(unsigned word) { return above_gumbel(word); }
extern "C" float most() { return ABOVE_ALL; }
extern "C" unsigned long long weight(float v, int fixed) {
    return Weights(0.0f, 1.0f, fixed).of(v);
}
"""
BAR = """extern "C" float bar(const float *tops, int k) {
    static Candidates shared;
    static float below;
    launch(1, THREADS, [=] {
        Candidates::Bar mine;
        shared.raise<float>(mine, ordered<float>(tops[threadIdx.x]), k);
        if (threadIdx.x == 0)
            below = mine.below;
    });
    return below;
}
"""
SUM = """extern "C" Sum summed(const float *power, int times, float limit, int fixed) {
    Summing summing(fixed);
    double sum = summing.zero;
    for (int i = 0; i < 1024 * times; ++i)
        summing.add_above(sum, power[i % 1024], power[i % 1024], limit);
    return summing.whole(sum);
}
"""
BESIDE = {"sampling": PHILOX, "topk": BAR, "nucleus": SUM}
ADD_ABOVE = """asm("{ .reg .pred above; setp.gt.f32 above, %2, %3; @above add.rm.f64 %0, %0, %1; }"
            : "+d"(sum)
            : "d"(power), "f"(v), "f"(limit));"""
HERE_IN_CPP = {**IN_CPP, ADD_ABOVE: "if (v > limit) add(sum, power);"}
GUARD = 64  # words around what is written


def compiled(folder: Path) -> dict[str, ctypes.CDLL]:
    """The kernels of each file."""
    for path in HERE.glob("*.cuh"):
        text = path.read_text()
        for ptx, cpp in HERE_IN_CPP.items():
            text = text.replace(ptx, cpp)
        (folder / path.name).write_text(text)
    shutil.copy(Path(__file__).with_name(MORE), folder / MORE)
    made = {}
    for file in FILES:
        source = folder / f"{file}.cu"
        source.write_text(f'#include "{MORE}"\n' + (HERE / f"{file}.cu").read_text())
        calls = BESIDE.get(file, "")
        for kind in KINDS:
            for plan in PLANS:
                if plan.file.stem == file:
                    calls += CALL.format(
                        number=_number(plan, kind), kernel=plan.expression(C_TYPES[kind])
                    )
        v = Variant(f"choice_{file}", str(source), "-", reads=1, writes=1, teaches="",
                    launch=Launch())  # fmt: skip
        made[file] = library(v, calls, folder)
    made["sampling"].noise.restype = ctypes.c_float
    made["sampling"].most.restype = ctypes.c_float
    made["topk"].bar.restype = ctypes.c_float
    made["nucleus"].summed.restype = ctypes.c_ulonglong
    made["sampling"].noise_bound.restype = ctypes.c_float
    made["sampling"].weight.restype = ctypes.c_ulonglong
    return made


def _number(plan: ChoicePlan, kind: str) -> int:
    return PLANS.index(plan) + len(PLANS) * KINDS.index(kind)


class HostLaunch:
    """Stands for kernels.prepared.Prepared: the same arguments, of a function of this machine."""

    def __init__(
        self, function: Callable[..., None], grid: int, threads: int, shared: int,
        arguments: Sequence[int | None], early: bool = False,
    ) -> None:  # fmt: skip
        assert 0 < grid < 2**31
        assert 0 <= shared < 48 * 1024  # more has to be asked for
        self.function, self.grid, self.threads, self.shared = function, grid, threads, shared
        self.arguments = list(arguments)

    def __call__(self, stream: int, *pointers: int) -> None:
        given = iter(pointers)
        slots = [next(given) if a is None else a for a in self.arguments]
        assert next(given, None) is None
        signed = (ctypes.c_longlong * len(slots))(*(v - 2**64 * (v >= 2**63) for v in slots))
        self.function(ctypes.c_int(self.grid), ctypes.c_int(self.threads), signed)


@dataclass
class Host:
    """This machine as a GPU of so many ``multiprocessors``."""

    code: dict[str, ctypes.CDLL]
    multiprocessors: int = 1
    memories: list[Tensor] = field(default_factory=list)

    def kernel(self, plan: ChoicePlan, dtype: torch.dtype, device: int) -> Any:
        return self.code[plan.file.stem][f"call{_number(plan, frontier.NAMES[dtype])}"]

    def memory(self, words: int, x: Tensor) -> Tensor:
        """Full of what nobody may rely on, with a guard on either side."""
        self.memories.append(torch.full((words + 2 * GUARD,), 0x7FEDCBA987654321))
        return self.memories[-1][GUARD : GUARD + words]

    def watch(self, x: Tensor, around: Tensor) -> None:
        """Have loads counted that lie in ``around`` and not in a row of ``x``."""
        size = x.element_size()
        for code in self.code.values():
            ctypes.c_void_p.in_dll(code, "input").value = around.data_ptr()
            for name, value in {
                "size": around.nbytes, "before": x.data_ptr() - around.data_ptr(),
                "row": x.shape[1] * size, "stride": x.stride(0) * size,
            }.items():  # fmt: skip
                ctypes.c_longlong.in_dll(code, name).value = value

    def check(self) -> None:
        """That nothing was read or written that a GPU would have stopped at, or beside it."""
        for code in self.code.values():
            for kind in ("misaligned", "outside", "beyond"):
                assert ctypes.c_int.in_dll(code, kind).value == 0, kind
            ctypes.c_longlong.in_dll(code, "size").value = 0
        for memory in self.memories:
            for guard in (memory[:GUARD], memory[-GUARD:]):
                assert bool((guard == 0x7FEDCBA987654321).all())
        self.memories.clear()


def as_gpu(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has kernels.frontier.choice launch on ``host``."""

    def launch(device: int, key: Any, prepare: Callable[[], Any], *pointers: int) -> None:
        hash(key)
        prepare()(0, *pointers)

    monkeypatch.setattr(choice, "Prepared", HostLaunch)
    monkeypatch.setattr(choice, "kernel", host.kernel)
    monkeypatch.setattr(choice, "_memory", host.memory)
    monkeypatch.setattr(choice, "launch", launch)
    monkeypatch.setattr(choice, "_shared_bytes", lambda device: 228 * 1024)
    monkeypatch.setattr(
        choice, "gpu", lambda device: frontier.Gpu("host", 90, host.multiprocessors)
    )


def placed(rows: int, cols: int, dtype: torch.dtype, offset: int, gap: int) -> tuple[Tensor, ...]:
    """Rows that start ``offset`` elements past a line, ``gap`` apart, and the NaN around them."""
    around = torch.full((rows * (cols + gap) + 256,), torch.nan, dtype=dtype)
    start = -around.data_ptr() % 128 // around.element_size() + 64 + offset
    return around.as_strided((rows, cols), (cols + gap, 1), start), around
