"""Generating is the seed's, each token follows those before it, and every batch has its times."""

import pytest
import torch

from experiments.transformer.chance import TOP_K
from experiments.transformer.decoding import generate, prompts, report
from experiments.transformer.operators import Operators
from tests.experiments.transformer.small import PLAN, SETS, TEXT, model

NAMES = [operators.name for operators in SETS]


@pytest.mark.parametrize("operators", SETS, ids=NAMES)
def test_the_same_seed_gives_the_same_text_and_another_one_another(operators: Operators):
    made, given = model(), prompts(TEXT, PLAN, 3)
    found = generate(made, operators, given, 6, seed=1)
    assert torch.equal(found[:, :5], given)
    assert found.shape == (3, 11)
    torch.manual_seed(123)
    assert torch.equal(found, generate(made, operators, given, 6, seed=1))
    assert not torch.equal(found, generate(made, operators, given, 6, seed=2))


@pytest.mark.parametrize("operators", SETS, ids=NAMES)
def test_a_token_is_of_the_most_probable_ones(operators: Operators):
    made, given = model(), prompts(TEXT, PLAN, 3)
    found = generate(made, operators, given, 1, seed=1)
    with torch.no_grad():
        ranks = made(given, operators, last=True).argsort(-1, descending=True).argsort(-1)
    assert (ranks.gather(1, found[:, -1:]) < TOP_K).all()
    # Not the same one after another, as a generator that begins anew at every token would give.
    flat = made.tokens.weight
    with torch.no_grad():
        flat.zero_()
    assert len(set(generate(made, operators, given[:1], 6, seed=1)[0, 5:].tolist())) > 2


def test_every_batch_has_a_time_of_each_set():
    rows = list(report(model(), SETS, PLAN, TEXT))
    assert [(r["batch"], r["what"], r["operators"]) for r in rows] == [
        (batch, what, name)
        for batch in PLAN.batches
        for what in ("sample", "generate")
        for name in NAMES
    ]
    for row in rows:
        assert row["tokens"] == row["batch"] * (4 if row["what"] == "generate" else 1)
        assert row["tokens_per_s"] == pytest.approx(row["tokens"] / row["median_us"] * 1e6)
        assert row["low_us"] <= row["median_us"] <= row["high_us"]
        assert row["cols"] == 64
