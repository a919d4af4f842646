"""A call can be watched: the profiler's switch and its ranges work with or without ncu around."""

import pytest

from experiments.examine import Problem
from experiments.profiled import watch
from experiments.sweeps import Point
from kernels.registry import variant

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ["torch_eager", "triton_row", "cuda_split_reread"])
def test_a_watched_call_writes_a_softmax(name: str):
    problem = Problem(Point("float32", 64, 1024), "cuda", 1)
    reference, y = problem.fresh(variant(name))
    watch(name, problem)
    assert reference.check(y).ok
