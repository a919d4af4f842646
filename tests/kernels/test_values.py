"""Every variant that runs here gives the float64 softmax, on what users meet and benchmarks do not.

Without a GPU these are the torch variants on the CPU and the Triton ones in the interpreter.
"""

from itertools import cycle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from experiments.check import planted
from experiments.correctness import cases, examine
from kernels.launch import bind
from kernels.registry import DTYPES, VARIANTS
from tests.reference import DEVICE, assert_softmax

# Those that give whole rows; tests/kernels/test_topk.py has the others.
NAMES = [v.name for v in VARIANTS if not (v.ceiling or v.k) and (v.cpu or DEVICE == "cuda")]
TRITON = [v.name for v in VARIANTS if v.framework == "triton" and v.name in NAMES]
# torch_naive rounds every step to the input's type: at 16 bits it is wrong, and is shown as such.
ROUGH = [("torch_naive", "float16"), ("torch_naive", "bfloat16")]
EXACT = [
    (v.name, dtype)
    for v in VARIANTS
    for dtype in v.dtypes
    if v.name in NAMES and (v.name, dtype) not in ROUGH
]
# 1e30 and 1e-30 overflow and vanish in float16, as a user's would.
VALUES = st.one_of(
    st.floats(-100, 100, width=32),
    st.sampled_from([float("-inf"), float("inf"), float("nan"), 0.0, 1e4, -1e4, 1e30, 1e-30]),
)


@pytest.mark.parametrize(("name", "dtype"), EXACT)
def test_every_case_is_right(name: str, dtype: str):
    wrong = {}
    for case in cases(getattr(torch, dtype), DEVICE):
        x = case.x.clone()
        verdict = examine(name, case)
        if not verdict.ok:
            wrong[case.name, *x.shape] = verdict.reason
        assert_softmax(x, case.out)
    assert wrong == {}


@pytest.mark.parametrize(("name", "dtype"), ROUGH)
def test_steps_rounded_to_16_bits_are_rejected(name: str, dtype: str):
    verdicts = [examine(name, case) for case in cases(getattr(torch, dtype), DEVICE)]
    assert any("relative error" in verdict.reason for verdict in verdicts)


@pytest.mark.parametrize(("name", "dtype"), list(zip(TRITON, cycle(DTYPES))))
def test_the_odd_shape(name: str, dtype: str):
    # S2's shape; the interpreter takes milliseconds a row, and shares fewer out as unevenly.
    x = planted(1823 if DEVICE == "cuda" else 131, 781, getattr(torch, dtype), DEVICE, seed=0)
    y = torch.full_like(x, float("nan"))
    assert bind(name)(x, y) is y
    assert_softmax(x, y)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data(), shape=st.tuples(st.integers(1, 4), st.integers(1, 70)))
def test_random_shapes_and_values(name: str, data: st.DataObject, shape: tuple[int, int]):
    dtype = data.draw(st.sampled_from([d for n, d in EXACT if n == name]))
    values = data.draw(arrays(np.float32, shape, elements=VALUES))
    x = torch.from_numpy(values).to(DEVICE, getattr(torch, dtype))
    assert_softmax(x, bind(name)(x, torch.full_like(x, -1.0)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cols", [5, 781, 20_001])
def test_nothing_beside_the_output_is_written(name: str, cols: int):
    x = planted(3, cols + 9, torch.float32, DEVICE, seed=1)[:, 2 : cols + 2]
    memory = torch.full((5, cols + 9), 7.0, device=DEVICE)
    inside = torch.zeros_like(memory, dtype=torch.bool)
    inside[1:4, 4 : cols + 4] = True
    bind(name)(x, memory[1:4, 4 : cols + 4])
    assert_softmax(x, memory[1:4, 4 : cols + 4])
    assert bool((memory[~inside] == 7.0).all())
