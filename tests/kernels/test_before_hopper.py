"""The PTX with which a later GPU runs what an A100 would: an A100's code, and only when asked."""

from dataclasses import replace

import pytest

from kernels.frontier.backward import Gradient
from kernels.frontier.backward_plans import backward_plan
from kernels.frontier.plans import APART, NONE, Plan, Shape
from tests.gpu.ampere import A100, MODULES, as_an_a100, ptx

GRADIENT = Gradient(log=False, scale=0.5, factor=2.0, masked=False)
# A kernel of each regime before Hopper, an operator's among them, and a gradient's.
PLANS = (
    Shape("warp", (32, 128)).plan(500, 4, APART),
    Shape("block", (512, 1)).plan(10_000, 4, NONE),
    Shape("grid", (512, 108, 1)).plan(131_072, 4, NONE),
    replace(Shape("stream", (1024,)).plan(1_000_001, 4, APART), given=("Factors<true>",)),
    replace(
        backward_plan(50_257, 4, APART, A100.arch, A100.multiprocessors), given=(GRADIENT.type,)
    ),
)
HOPPERS = ("barrier.cluster", "cp.async.bulk", "griddepcontrol", "mbarrier")


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.label)
def test_it_is_an_a100s(plan: Plan):
    code, symbol = ptx(plan, "float32")
    text = code.rstrip(b"\0").decode()
    assert ".target sm_80" in text
    assert f".entry {symbol}(" in text
    assert not [word for word in HOPPERS if word in text]
    assert code.endswith(b"\0")  # the driver looks for it


def test_it_is_launched_within_and_not_after():
    before = [(module.gpu, module.kernel) for module in MODULES]
    with as_an_a100():
        assert [module.gpu(0) for module in MODULES] == [A100] * len(MODULES)
        assert not [m for m, (_, kernel) in zip(MODULES, before, strict=True) if m.kernel is kernel]
    assert [(module.gpu, module.kernel) for module in MODULES] == before
