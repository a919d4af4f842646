"""Errors of operators: against the right reference, in the right unit, of the right inputs."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor

import kernels
from experiments.accuracy import ulps
from experiments.family import OPERATORS, sample
from experiments.family.accuracy import JUDGED, errors, given, report, result
from experiments.family.fingerprint import sha256_of
from experiments.family.operator import OURS, TORCH, Case
from experiments.family.tables import ACCURACY
from experiments.grids import ACCURACY_INPUTS
from experiments.tables import BadTable, read_csv, validated
from kernels.registry import DTYPES
from tests.commands import module

EACH = [(name, case) for name, judged in JUDGED.items() for case in judged.small]
# What a float32 result may be off by, beside outliers and long tails.
MOST = 32


def reported(name: str, dtype: str = "float32") -> pd.DataFrame:
    table = pd.DataFrame(report(name, dtype, "cpu")).assign(code_commit="a" * 40)
    return validated(ACCURACY, table.reindex(columns=list(ACCURACY.columns)))


def test_every_operator_is_judged_but_the_calls_of_all():
    assert set(OPERATORS) - set(JUDGED) == {"calls"}


@pytest.mark.parametrize("name", JUDGED)
def test_what_is_asked_on_a_gpu_is_asked_of_the_operator(name: str):
    for cases in (JUDGED[name].cases, JUDGED[name].small):
        assert len(set(cases)) == len(cases)
        assert {case.dtype for case in cases} == {"float32"}
    asked = {case.asked for case in OPERATORS[name].cases}
    assert {case.asked for case in JUDGED[name].cases} <= asked
    # Three dtypes of it take seconds.
    assert sum(case.elements for case in JUDGED[name].cases) < 2**24


@pytest.mark.parametrize(("name", "case"), EACH, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_reference_is_that_of_the_operators_own_check(name: str, case: Case, dtype: str):
    case = replace(case, dtype=dtype)
    judged, operator = JUDGED[name], OPERATORS[name]
    made = dict(given(judged, case, "cpu"))
    tensors = made["normal"]
    fresh = operator.tensors(case, "cpu", 1)
    assert [(t.shape, t.dtype) for t in tensors] == [(t.shape, t.dtype) for t in fresh]
    exact, of = judged.exact(case, tensors)
    assert exact.dtype == of.dtype == torch.float64
    assert bool((of >= exact.abs()).all())
    for each in operator.implementations:
        if each.name in judged.implementations:
            y = result(judged, each, case, "cpu", tensors)
            assert y.shape == exact.shape
            assert float(ulps(y, exact, of).nan_to_num(0.0).max()) <= 256
    if name in ("topk_softmax", "sample"):
        return  # whose checks want places
    if name == "cross_entropy" and dtype == "float16":
        return  # which is not timed, and has no tolerance
    right = exact.to(getattr(torch, dtype))
    assert operator.error(case, tensors, right).reason == ""
    assert operator.error(case, tensors, right * 1.2).reason


@pytest.mark.parametrize("name", JUDGED)
def test_inputs_are_the_kinds_that_make_sense(name: str):
    judged = JUDGED[name]
    kinds = [kind for kind, _ in given(judged, judged.small[0], "cpu")]
    assert kinds == [kind for kind in ACCURACY_INPUTS if kind not in judged.but]
    assert set(judged.but) <= set(ACCURACY_INPUTS)
    assert not judged.but or name == "attention"


@pytest.mark.parametrize("name", ["factors", "columns", "backward", "cross_entropy"])
def test_right_results_are_off_by_little_on_both_sides(name: str):
    table = reported(name)
    assert set(table["status"]) == {"ok"}
    assert set(table["implementation"]) == {OURS, TORCH}
    assert set(table["kernel_sha256"]) == {sha256_of(name)}
    calm = table[~table["input"].isin(["outliers", "long tails"])]
    assert (calm["max_ulps"] < MOST).all()
    assert (calm["mean_ulps"] <= calm["max_ulps"]).all()


def test_an_error_of_one_element_of_ours_is_seen_and_torchs_stays(monkeypatch: pytest.MonkeyPatch):
    right = kernels.softmax

    def rough(x: Tensor, *args, out: Tensor | None = None, **kwargs) -> Tensor:
        y = right(x, *args, out=out, **kwargs)
        y.view(-1)[0] *= 1 + 2**-14
        return y

    monkeypatch.setattr(kernels, "softmax", rough)
    for name in ("columns", "masks", "factors"):
        table = reported(name)
        table = table[(table["input"] == "normal") & (table["asked"] != "log")]
        ours, torchs = (table[table["implementation"] == side] for side in (OURS, TORCH))
        # 2^-14 relative are 512 units, or up to 1024.
        assert ours["max_ulps"].between(256, 1100).all(), name
        assert (torchs["max_ulps"] < MOST).all(), name


def test_what_is_written_over_is_no_input_of_the_next():
    case = JUDGED["cross_entropy"].small[-1]
    (_, tensors), *_ = given(JUDGED["cross_entropy"], case, "cpu")
    before = tensors[0].clone()

    class Spoiling:
        name = OURS

        @staticmethod
        def prepare(case: Case, device: str):
            return lambda x, target: x.zero_()

    judged = JUDGED["cross_entropy"]
    result(judged, Spoiling, case, "cpu", tensors)  # pyright: ignore[reportArgumentType]
    assert torch.equal(tensors[0], before)


def test_infinities_are_right_where_they_belong_and_nan_nowhere():
    exact = torch.tensor([-torch.inf, -1.0], dtype=torch.float64)
    of = exact.abs().clamp_min(1.0)
    told = errors(torch.tensor([-torch.inf, -1.0]), exact, of)
    assert (told["status"], told["max_ulps"]) == ("ok", 0.0)
    for values in ([-torch.inf, torch.nan], [-torch.inf, -torch.inf], [torch.inf, -1.0]):
        told = errors(torch.tensor(values), exact, of)
        assert told["status"] == "wrong", values
    missing = errors(torch.tensor([-5.0, -1.0]), exact, of)
    assert missing["max_ulps"] == torch.inf


def test_units_are_those_of_what_cancels():
    y, exact = torch.tensor([2.0**-20]), torch.zeros(1, dtype=torch.float64)
    assert ulps(y, exact, torch.ones(1, dtype=torch.float64)).item() == 2.0**-20 / 2.0**-23
    negative = torch.tensor([-1.0], dtype=torch.float64)
    up = torch.nextafter(torch.tensor([-1.0]), torch.tensor([-2.0]))
    assert ulps(up, negative, -negative).item() == 1.0


def test_an_implementation_that_fails_says_so(monkeypatch: pytest.MonkeyPatch):
    def broken(*_, **__):
        raise RuntimeError("no such thing\nmore")

    monkeypatch.setattr(kernels, "topk_softmax", broken)
    table = reported("topk_softmax")
    ours = table[table["implementation"] == OURS]
    assert set(ours["status"]) == {"skipped"}
    assert set(ours["reason"]) == {"RuntimeError: no such thing"}
    assert set(table.loc[table["implementation"] == TORCH, "status"]) == {"ok"}


def drawn(dtype: str = "float32", asked: str = sample.WARM) -> tuple[Case, tuple[Tensor, ...]]:
    """Enough rows that in some of them the two largest sums are close."""
    case = sample.in_rows(asked, dtype, 4000, 781)
    return case, dict(given(JUDGED["sample"], case, "cpu"))["normal"]


def lacking(case: Case, tensors: tuple[Tensor, ...], ids: Tensor) -> float:
    judged = JUDGED["sample"]
    return errors(judged.compared(case, tensors, ids), *judged.exact(case, tensors))["max_ulps"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("asked", [sample.WARM, sample.OF_K])
def test_a_token_is_the_one_with_the_largest_noisy_logit_or_as_good_as_it(dtype: str, asked: str):
    case, tensors = drawn(dtype, asked)
    assert lacking(case, tensors, sample.ours(case, "cpu")(*tensors)) < 8


def test_errors_of_a_thousandth_are_seen():
    case, (x,) = drawn()
    ours = sample.ours(case, "cpu")
    right = ours(x)
    assert lacking(case, (x,), right) < 8
    warmer = ours(x / 1.001)
    noisier = ours(x + 1e-3 * torch.randn(x.shape, generator=torch.Generator().manual_seed(1)))
    for ids in (warmer, noisier):
        assert 0 < int((ids != right).sum()) < 100
        assert lacking(case, (x,), ids) > 100


def test_a_token_that_is_not_the_best_is_off_by_what_it_lacks():
    judged, case = JUDGED["sample"], JUDGED["sample"].small[0]
    tensors = dict(given(judged, case, "cpu"))["normal"]
    sums, of = sample.noisy(case, *tensors)
    best, second = sums.topk(2, dim=1)[0].T
    exact, unit = judged.exact(case, tensors)
    assert torch.equal(unit, of.gather(1, sums.argmax(1, keepdim=True))[:, 0])
    for place, lacks in ((0, 0 * best), (1, best - second)):
        ids = sums.topk(2, dim=1).indices[:, place]
        told = errors(judged.compared(case, tensors, ids), exact, unit)
        worst = float((lacks / torch.ldexp(torch.ones(5), torch.frexp(unit).exponent - 24)).max())
        assert told["max_ulps"] == pytest.approx(worst, rel=1e-6)
    assert worst > 1000


def test_a_token_that_top_k_drops_is_wrong():
    judged = JUDGED["sample"]
    case = next(c for c in judged.small if c.asked == sample.OF_K)
    tensors = dict(given(judged, case, "cpu"))["normal"]
    dropped = tensors[0].argmin(1)
    assert errors(judged.compared(case, tensors, dropped), *judged.exact(case, tensors)) == {
        "status": "wrong", "reason": "NaN or infinity in what is compared", "max_ulps": torch.inf,
        "mean_ulps": torch.inf,
    }  # fmt: skip


def test_other_cases_have_other_noise():
    cases = [replace(c, dtype=d) for c in JUDGED["sample"].cases[::3] for d in DTYPES]
    assert len({sample.offset(case) for case in cases}) == len(cases) == 6


def test_noise_is_gumbels():
    """Of 100,000 numbers, against the distribution itself: Kolmogorov and Smirnov's distance."""
    case = replace(JUDGED["sample"].small[0], shape=(1, 100_000), rows=1, cols=100_000)
    sums, _ = sample.noisy(case, torch.zeros(1, 100_000))
    found = torch.exp(-torch.exp(-sums[0].sort()[0]))
    expected = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000
    assert float((found - expected).abs().max()) < 1.95 / 100_000**0.5  # in 999 of 1,000 cases


def test_the_command_writes_every_row(tmp_path: Path):
    out = tmp_path / "family" / "accuracy.csv"
    done = module("experiments.family.accuracy", "--device", "cpu", "--out", out)
    assert done.returncode == 0, done.stdout
    table = validated(ACCURACY, read_csv(out))
    assert set(table["operator"]) == set(JUDGED)
    rows = sum(
        len(judged.small) * (len(ACCURACY_INPUTS) - len(judged.but)) * len(judged.implementations)
        for judged in JUDGED.values()
    )
    assert len(table) == rows * len(DTYPES)
    assert done.stdout.splitlines()[-1] == f"{len(table)} ok"
    with pytest.raises(BadTable):
        validated(ACCURACY, pd.concat([table, table], ignore_index=True))
