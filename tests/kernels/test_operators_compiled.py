"""The frontier's kernels with what operators give them compile, for every regime that takes it."""

from dataclasses import replace

import pytest

from kernels.compiled import Job
from kernels.cuda_compiler import C_TYPES
from kernels.frontier.backward import Gradient
from kernels.frontier.backward_plans import backward_plan
from kernels.frontier.compiler import compile_plan, plan_key, sources_of
from kernels.frontier.plans import ALIKE, APART, NONE, Plan, Shape
from kernels.registry import ARCHITECTURES, ELEMENT_BYTES

LOG, PLAIN = "Factors<true>", "Factors<false>"
MASKS = (("Causal",), ("const unsigned char *", "Places"), ("const {} *", "Places"))
# Of each regime a shape and a width, and whether its rows may be masked.
KERNELS = {
    "warp": (Shape("warp", (32, 64)), 1000, True),
    "tile": (Shape("tile", (8, 128)), 63, False),
    "block": (Shape("block", (512, 1)), 10_000, True),
    "raw": (Shape("block", (512, 1), raw=True), 10_000, True),
    "cluster": (Shape("cluster", (256, 4, 2)), 50_000, True),
    "staged": (Shape("staged", (512, 1, 2)), 10_000, False),
    "grid": (Shape("grid", (512, 32, 1)), 200_000, True),
    "chunks": (Shape("chunks", (1024, 13, 8, 8, 2, 1, 3)), 1_000_000, False),
    "stream": (Shape("stream", (1024,)), 1_000_000, True),
}
BEFORE_HOPPER = ("warp", "block", "raw", "grid", "stream")
ROWS = (("bfloat16", NONE), ("float32", ALIKE), ("float16", APART))
MORE = 16  # bytes of spills beside the plain kernel's


def _given(dtype: str, masked: bool) -> list[tuple[str, ...]]:
    masks = [tuple(t.format(C_TYPES[dtype]) for t in mask) for mask in MASKS] if masked else []
    return [(LOG,), *((PLAIN, *mask) for mask in ((), *masks)), *((LOG, *m) for m in masks[-1:])]


def _spilled(plan: Plan, job: Job) -> int:
    return compile_plan(plan, job).kernels[0].resources.spill_bytes or 0


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_an_operator_compiles_and_spills_no_more_than_a_softmax(name: str, arch: str):
    shape, cols, masked = KERNELS[name]
    if arch == "sm_80" and name not in BEFORE_HOPPER:
        shape = KERNELS["stream"][0]
    for dtype, edges in ROWS if arch == "sm_90" else ROWS[-1:]:
        cols -= cols % 8 if edges == NONE else 0
        plan, job = shape.plan(cols, ELEMENT_BYTES[dtype], edges), Job("frontier", dtype, arch)
        plain = _spilled(plan, job)
        for given in _given(dtype, masked):
            assert _spilled(replace(plan, given=given), job) <= plain + MORE, (dtype, given)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("cols", [64, 1001, 8192, 131_072, 1_048_577])
def test_a_gradient_compiles_and_spills_no_more_than_a_softmaxs(cols: int, arch: str):
    for dtype in ("bfloat16", "float32") if arch == "sm_90" else ("bfloat16",):
        edges, number = cols % 8 != 0, int(arch.removeprefix("sm_"))
        plan = backward_plan(cols, ELEMENT_BYTES[dtype], edges, number, 132)
        job = Job("frontier", dtype, arch)
        plain = _spilled(plan, job)
        for log, masked in ((False, False), (True, False), (True, True)):
            given = (Gradient(log, 0.5, 2.0, masked).type,)
            assert _spilled(replace(plan, given=given), job) <= plain + MORE, (dtype, given)


def test_what_is_given_is_part_of_the_content_of_a_kernel():
    plan, job = KERNELS["warp"][0].plan(1000, 4, NONE), Job("frontier", "float32", "sm_90")
    keys = {plan_key(replace(plan, given=given), job) for given in ((), (LOG,), (PLAIN,))}
    assert len(keys) == 3
    named = {path.name for path in sources_of(replace(plan, given=(LOG,)))}
    assert named - {path.name for path in sources_of(plan)} == {"operators.cuh"}
