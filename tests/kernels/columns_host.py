"""The kernels that go down columns, compiled by this machine's compiler, and launched by columns.py
as on a GPU."""

import ctypes
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.cuda_compiler import C_TYPES
from kernels.frontier import columns
from kernels.frontier.columns_layout import Columns, as_columns, unit_bytes
from kernels.frontier.columns_plans import REGIMES, Choice, ColumnsPlan, choose
from kernels.frontier.frontier import Gpu
from tests.kernels.frontier_host import in_cpp
from tests.kernels.host import library

# What stands before and after a kernel's integers, which are 64 bits wide here.
POINTERS = {
    "held": "{t} *, {t} *",
    "partials": "{t} *, Partial *",
    "results": "{t} *, Partial *, {t} *",
    "bands": "{t} *, {t} *, Partial *, Meeting *",
}
CALL = """extern "C" void call{number}(
        int blocks, int threads, int shared, long long **values) {{
    dynamic_vectors = shared / 16;
    {cluster}
    launch(blocks, threads, [=] {{ {kernel}({given}); }});
}}
"""
INTEGERS = {"held": 8, "partials": 8, "results": 10, "bands": 15}
Chooser = Callable[[Columns, int, int, bool, int, int], Choice]


class Code:
    """Kernels of one dtype, compiled in ``folder``, that columns.softmax launches."""

    def __init__(self, kind: str, choices: Iterable[Choice], folder: Path):
        self.functions: dict[ColumnsPlan, Any] = {}
        self.libraries = []
        self.launches: list[tuple[ColumnsPlan, int, int]] = []
        self.meetings: dict[int, Tensor] = {}
        plans = dict.fromkeys(plan for choice in choices for plan in choice.plans)
        for regime in REGIMES:
            mine = [plan for plan in plans if plan.shape.regime == regime]
            if not mine:
                continue
            inside = folder / regime
            inside.mkdir()
            variant = in_cpp(f"columns_{regime}", inside)
            for header in ("bulk", "cluster"):
                stand_in = Path(__file__).with_name(f"{header}_on_the_host.cuh")
                shutil.copy(stand_in, inside / f"{header}.cuh")
            pointers = POINTERS[regime].format(t=C_TYPES[kind]).split(", ")
            given = [f"*({p} *)values[{i}]" for i, p in enumerate(pointers)]
            given += [f"*values[{len(pointers) + i}]" for i in range(INTEGERS[regime])]
            calls = "".join(
                CALL.format(
                    number=n, kernel=plan.expression(C_TYPES[kind]), given=", ".join(given),
                    cluster=f"cluster = {plan.shape.sizes[3]};" * (regime == "held"),
                )
                for n, plan in enumerate(mine)
            )  # fmt: skip
            code = library(variant, calls, inside)
            self.libraries.append(code)
            self.functions |= {plan: code[f"call{n}"] for n, plan in enumerate(mine)}

    def faults(self) -> int:
        """Of addresses that no vector may lie at, and of writes next to shared memory.

        And blocks of clusters that were not sent what they announced.
        """
        kinds = ("misaligned", "beyond")
        uneven = sum(code.uneven() for code in self.libraries if hasattr(code, "uneven"))
        return uneven + sum(
            ctypes.c_int.in_dll(code, k).value for code in self.libraries for k in kinds
        )

    def take_over(self, monkeypatch: pytest.MonkeyPatch, chooser: Chooser, arch: int) -> None:
        """Have ``columns`` launch these, as ``chooser`` chooses."""
        code = self

        class OnTheHost:
            def __init__(
                self, plan: ColumnsPlan, grid: int, threads: int, shared: int,
                arguments: Sequence[int | None], cluster: int = 1, early: bool = False,
            ):  # fmt: skip
                assert threads == plan.threads
                assert shared == plan.shared_bytes
                assert grid % cluster == 0
                assert cluster == plan.shape.sizes[3]
                assert early == (arch >= 90)
                self.plan, self.grid, self.threads, self.shared = plan, grid, threads, shared
                self.integers = [value for value in arguments if value is not None]
                self.pointers = len(arguments) - len(self.integers)
                assert len(self.integers) == INTEGERS[plan.shape.regime]
                assert arguments[: self.pointers] == [None] * self.pointers

            def __call__(self, stream: int, *pointers: int) -> None:
                assert len(pointers) == self.pointers
                values = (ctypes.c_int64 * 24)(*pointers, *self.integers)
                start = ctypes.addressof(values)
                places = (ctypes.c_void_p * 24)(*(start + 8 * i for i in range(24)))
                code.launches.append((self.plan, self.grid, self.threads))
                for _ in range(1 + (self.plan.shape.sizes[3] > 1)):
                    code.functions[self.plan](self.grid, self.threads, self.shared, places)

        monkeypatch.setattr(columns, "choose", chooser)
        monkeypatch.setattr(columns, "gpu", lambda device: Gpu("host", arch, 4))
        monkeypatch.setattr(columns, "kernel", lambda plan, dtype, device: plan)

        def scratch(size: int, device: int | None, stream: int) -> int:
            return code.meetings.setdefault(size, torch.zeros(size, dtype=torch.uint8)).data_ptr()

        monkeypatch.setattr(columns, "scratch", scratch)
        monkeypatch.setattr(columns, "allow", lambda plan, name, value: None)
        monkeypatch.setattr(columns, "Prepared", OnTheHost)
        monkeypatch.setattr(
            columns, "launch", lambda device, key, prepare, *pointers: prepare()(0, *pointers)
        )


def chosen(x: Tensor, dim: int, out: Tensor, log: bool, arch: int, chooser: Chooser = choose):
    """What columns.softmax takes for these tensors."""
    lies, to = (as_columns(t.shape, t.stride(), dim) for t in (x, out))
    assert lies is not None
    assert to is not None
    size = x.element_size()
    steps = (lies.outer_stride, lies.step, to.outer_stride, to.step)
    places = (x.data_ptr(), out.data_ptr(), lies.inner * size, *(step * size for step in steps))
    return chooser(lies, size, unit_bytes(size, *places), log, arch, 4)


def placed(
    shape: tuple[int, int, int], gap: int, more: int, offset: int, fill: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """A tensor with gaps after rows and slabs, ``offset`` elements past a line, and its memory."""
    outer, cols, inner = shape
    step = inner + gap
    memory = torch.full((outer * (cols * step + more) + 256,), fill, dtype=dtype)
    start = -memory.data_ptr() % 128 // memory.element_size() + 64 + offset
    return memory.as_strided(shape, (cols * step + more, step, 1), start), memory
