"""Every variant on the GPU: right on every case, or refused with a reason."""

import pytest
import torch

from experiments.check import check_copy, planted
from experiments.correctness import cases, examine
from kernels.launch import bind
from kernels.outputs import TopK, empty_output, spoilt
from kernels.registry import DTYPES, VARIANTS, variant
from tests.gpu.memory import needs
from tests.reference import assert_softmax

pytestmark = pytest.mark.gpu

# Peers are others' code: correctness.csv says how they fare.
SOFTMAXES = [v.name for v in VARIANTS if not v.ceiling and v.framework != "peers"]
CEILINGS = [v.name for v in VARIANTS if v.ceiling]
# torch_naive rounds every step to the input's type: at 16 bits it is wrong, and is shown as such.
ROUGH = {("torch_naive", "float16"), ("torch_naive", "bfloat16")}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SOFTMAXES)
def test_every_case(name: str, dtype: str):
    if dtype not in variant(name).dtypes:
        assert "only" in str(variant(name).refusal(dtype, 1))
        return
    wrong = {}
    for case in cases(getattr(torch, dtype), "cuda", variant(name).k):
        rows, cols = case.x.shape
        if variant(name).refusal(dtype, cols):
            continue
        x = case.x.clone()
        verdict = examine(name, case)
        if not verdict.ok:
            wrong[case.name, rows, cols] = verdict.reason
        elif x.numel() < 10**6 and (name, dtype) not in ROUGH:
            assert_softmax(x, case.out)
    assert bool(wrong) == ((name, dtype) in ROUGH), wrong


@pytest.mark.large
@pytest.mark.xdist_group("large")  # one process has all, and no other waits for it
@pytest.mark.parametrize("name", [n for n in SOFTMAXES if n != "torch_naive"])
def test_rows_beyond_32_bit_offsets(name: str):
    # 2^32 elements: the last rows lie where an int offset has wrapped around.
    rows, cols = 2**20 + 1, 2**12
    needs(5 * rows * cols * 2)
    dtype = torch.bfloat16 if "bfloat16" in variant(name).dtypes else torch.float32
    x = torch.zeros(rows, cols, dtype=dtype, device="cuda")
    x[-3:] = planted(3, cols, dtype, "cuda", seed=1)
    y = bind(name)(x, spoilt(empty_output(variant(name), x)))
    assert_softmax(x[-3:], TopK(*(t[-3:] for t in y)) if isinstance(y, TopK) else y[-3:])
    probabilities = y.values if isinstance(y, TopK) else y
    assert bool((probabilities[:-3] == 1 / cols).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CEILINGS)
@pytest.mark.parametrize("cols", [1, 781, 4096])
def test_a_copy_moves_every_byte(name: str, dtype: str, cols: int):
    wide = planted(33, cols + 7, getattr(torch, dtype), "cuda", seed=2)
    memory = torch.full_like(wide, 7.0)
    for x, y in ((wide.clone(), torch.zeros_like(wide)), (wide[:, 3:-4], memory[:, 3:-4])):
        assert check_copy(x, bind(name)(x, y)).ok
    assert bool((memory[:, :3] == 7).all())
    assert bool((memory[:, -4:] == 7).all())


def test_the_copy_check_sees_one_wrong_byte():
    x = planted(1024, 4096, torch.float32, "cuda", seed=2)
    y = bind("copy_torch")(x, torch.empty_like(x))
    assert check_copy(x, y).ok
    y.view(torch.uint8)[777, 4242] ^= 1
    verdict = check_copy(x, y)
    assert (verdict.ok, verdict.reason) == (False, "the copy differs")
