"""S5's kernels, their own code without a GPU: right on every case, in the form that takes it.

The form for whole vectors loads without a look at the row's end: chosen where it must not be, it
would read and write beyond the row, or at an address where a processor stops.
"""

import ctypes
from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor

from experiments.check import check, planted
from experiments.correctness import cases
from experiments.sweeps.sweep import EXACT
from kernels.cuda_compiler import Instance, instances
from kernels.launch import _on_16_bytes, check_arguments
from kernels.registry import Launch, variant
from tests.kernels.host import library

Run = Callable[..., Tensor]


def calls(launch: Launch) -> str:
    """A function for every instance, call0 and so on."""
    parts = "static_cast<Partial *>(parts), " if launch.splits > 1 else ""
    rows = ", rows" if launch.rows > 1 else ""
    return "\n".join(
        f"""extern "C" void call{n}(int blocks, int size, const float *x, float *out, void *parts,
        long long x_stride, long long out_stride, int cols, int rows) {{
            launch(blocks, size, [=] {{
                {made.expression("float32")}(x, out, {parts}x_stride, out_stride, cols{rows});
            }});
        }}"""
        for n, made in enumerate(instances(launch))
    )


@pytest.fixture(scope="module")
def on_the_host(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """A variant of S5 by name, compiled for this machine's processor."""
    folder = tmp_path_factory.mktemp("host")

    @cache
    def compiled(name: str) -> Run:
        v = variant(name)
        assert v.launch is not None
        launch, code = v.launch, library(v, calls(v.launch), folder)
        numbers = {made: n for n, made in enumerate(instances(launch))}

        def run(x: Tensor, out: Tensor, whole: bool | None = None) -> Tensor:
            """``whole`` asks for a form; without it, the one that a launch takes."""
            check_arguments(x, out)
            rows, cols = x.shape
            if whole is None:
                whole = launch.filled(cols) and _on_16_bytes(x) and _on_16_bytes(out)
            parts = torch.full((rows * launch.splits * 2,), torch.nan)
            for kernel in launch.kernels:
                code[f"call{numbers[Instance(kernel, launch.tile(cols), whole)]}"](
                    ctypes.c_int(-(-rows // launch.rows) * launch.splits),
                    ctypes.c_int(launch.block(cols)[0]),
                    *(ctypes.c_void_p(t.data_ptr()) for t in (x, out, parts)),
                    *(ctypes.c_longlong(t.stride(0)) for t in (x, out)),
                    ctypes.c_int(cols), ctypes.c_int(rows),
                )  # fmt: skip
            return out

        return run

    return compiled


@pytest.mark.parametrize("name", EXACT)
def test_the_kernel_is_right_on_every_case(name: str, on_the_host: Callable[[str], Run]):
    run, wrong = on_the_host(name), {}
    for case in cases(torch.float32, "cpu"):
        if variant(name).refusal("float32", case.x.shape[1]):
            continue
        x = case.x.clone(memory_format=torch.preserve_format)
        assert isinstance(case.out, Tensor)
        verdict = check(x, run(case.x, case.out))
        if not verdict.ok:
            wrong[case.name, *case.x.shape] = verdict.reason
    assert wrong == {}


@pytest.mark.parametrize("name", EXACT)
def test_both_forms_give_the_same_bits(name: str, on_the_host: Callable[[str], Run]):
    launch = variant(name).launch
    assert launch is not None
    held = [launch.cols_held(tile) for tile in launch.tiles] or [1024, 4096, 20_000]
    for cols in held:
        memory = planted(2, cols + 4, torch.float32, "cpu", seed=cols)
        x = memory[:, :cols]
        assert launch.filled(cols)
        assert _on_16_bytes(x)
        y = torch.full_like(memory, 7.0)
        run = on_the_host(name)
        run(x, y[:, :cols])
        assert check(x, y[:, :cols]).ok
        assert bool((y[:, cols:] == 7).all())
        assert torch.equal(y[:, :cols], run(x, torch.empty_like(x), whole=False))
