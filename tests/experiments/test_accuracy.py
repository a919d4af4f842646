"""Errors are counted in the right unit, on inputs that are what they are called."""

import math

import pandas as pd
import pytest
import torch

from experiments import correctness
from experiments.accuracy import inputs, report, ulps
from experiments.grids import ACCURACY_INPUTS, ACCURACY_SHAPES, ACCURACY_SMALL
from experiments.tables import ACCURACY, validated
from kernels.outputs import TopK

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
PLACES = {"float32": 23, "float16": 10, "bfloat16": 7}


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("value", [1.0, 0.75, 0.5, 3e-3])
def test_the_next_number_is_one_ulp_away(name: str, value: float):
    y = torch.tensor([value], dtype=DTYPES[name])
    up = torch.nextafter(y, torch.tensor([2.0], dtype=DTYPES[name]))
    exact = y.double()
    assert ulps(up, exact).item() == 1.0
    assert ulps(y, exact + 2.0 ** (math.floor(math.log2(value)) - PLACES[name]) / 2).item() == 0.5


def test_subnormals_count_where_they_are_not_flushed():
    for name, dtype in DTYPES.items():
        tiny = torch.finfo(dtype).tiny
        got = ulps(torch.zeros(1, dtype=dtype), torch.tensor([tiny / 4], dtype=torch.float64))
        steps = tiny / 4 / (tiny * torch.finfo(dtype).eps)
        assert got.item() == steps if name == "float16" else got.isnan().item()


def test_infinity_is_infinitely_wrong():
    assert ulps(torch.tensor([torch.inf]), torch.tensor([0.5], dtype=torch.float64)) == torch.inf


@pytest.mark.parametrize("name", DTYPES)
def test_inputs_are_what_they_are_called(name: str):
    made = dict(inputs(64, 1000, DTYPES[name], "cpu"))
    values = {kind: x.double() for kind, x in made.items()}
    assert {x.dtype for x in made.values()} == {DTYPES[name]}
    assert values["normal"].std().item() == pytest.approx(1, abs=0.02)
    assert values["outliers"].abs().max() > 20
    assert values["shifted by 1e4"].mean().item() == pytest.approx(1e4, rel=1e-2)
    assert values["long tails"].abs().max() > 50
    assert values["near-uniform"].abs().max() < 0.01
    assert (values["one-hot"] == 30).sum(dim=1).tolist() == [1] * 64
    masked = values["-inf masks"].isneginf()
    assert 0.4 < masked.double().mean() < 0.6
    assert not masked.all(dim=1).any()


def test_a_report_sees_an_error_of_one_element(monkeypatch: pytest.MonkeyPatch):
    from kernels import launch

    def rough(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        out.copy_(torch.softmax(x.double(), dim=1))
        out[0, 0] *= 1 + 2**-18
        return out

    monkeypatch.setattr(launch, "load", lambda name: rough)
    table = pd.DataFrame(report("torch_eager", "float32", "cpu"))
    table = validated(ACCURACY, table.reindex(columns=list(ACCURACY.columns)))
    # 2^-18 relative are 32 units, or up to 64 where the exact value is just above a power of two.
    normal = table[table["input"] == "normal"]
    assert normal["max_ulps"].between(15, 64).all()
    assert (normal["mean_ulps"] < 0.5).all()
    assert set(table["status"]) == {"ok"}


def test_a_top_k_is_compared_with_the_largest(monkeypatch: pytest.MonkeyPatch):
    from kernels import launch

    table = pd.DataFrame(report("torch_topk_4", "float32", "cpu"))
    assert set(table["status"]) == {"ok"}
    assert table["max_ulps"].between(0, 64).all()
    assert (table["row_sum_err"] < 1e-5).all()

    def next_four(x: torch.Tensor, out: TopK) -> TopK:
        eight = torch.softmax(x, dim=1).topk(8, dim=1)
        return TopK(*(mine.copy_(found[:, 4:]) for mine, found in zip(out, eight, strict=True)))

    monkeypatch.setattr(launch, "load", lambda name: next_four)
    shifted = pd.DataFrame(report("torch_topk_4", "float32", "cpu"))
    assert (shifted.loc[shifted["input"] == "normal", "max_ulps"] > 1000).all()


def test_what_cannot_run_or_is_not_finite_says_so(monkeypatch: pytest.MonkeyPatch):
    from kernels import launch

    skipped = pd.DataFrame(report("cuda_float4", "float32", "cpu"))
    assert set(skipped["reason"]) == {"needs a CUDA GPU"}
    monkeypatch.setattr(launch, "load", lambda name: lambda x, out: out)
    wrong = pd.DataFrame(report("torch_eager", "float32", "cpu"))
    assert set(wrong["status"]) == {"wrong"}
    assert set(wrong["reason"]) == {"NaN or infinity in the output"}
    assert len(wrong) == len(ACCURACY_SMALL) * len(ACCURACY_INPUTS)


def test_its_shapes_have_been_compiled_by_the_checks_before():
    assert set(ACCURACY_SHAPES) <= set(correctness.GPU_SHAPES)
    assert set(ACCURACY_SMALL) <= set(correctness.SHAPES)
