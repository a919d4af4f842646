"""The transformer on a GPU: our operators agree with float64, and train as torch's do."""

from dataclasses import replace

import pytest
import torch

from experiments.transformer.check import check
from experiments.transformer.decoding import generate, prompts, report
from experiments.transformer.model import Size, Transformer
from experiments.transformer.operators import OURS, TORCH, Operators
from experiments.transformer.plan import FULL, Run
from experiments.transformer.training import train

pytestmark = [pytest.mark.gpu]
SMALL = replace(
    FULL, size=Size(layers=2, heads=2, width=128, context=256, vocabulary=32_768), batch=4,
    steps=30, warm_up=5, batches=(1, 3), prompt=32, generated=8, repeats=2, generations=2,
)  # fmt: skip
TEXT = torch.randint(500, (20_000,), generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("operators", [TORCH, OURS], ids=["torch", "ours"])
def test_operators_agree_with_float64(operators: Operators):
    check(operators, "cuda", torch.bfloat16)


def test_the_losses_are_those_of_torchs_operators_and_take_less_memory():
    text = TEXT.to("cuda")
    # Libraries take memory for themselves in the first run: it counts against ours.
    _, ours = train(OURS, Run("ours", 1), SMALL, text)
    _, theirs = train(TORCH, Run("torch", 1), SMALL, text)
    losses = [torch.tensor([row["loss"] for row in rows]) for rows in (ours, theirs)]
    torch.testing.assert_close(*losses, rtol=1e-2, atol=0)
    assert losses[0][-1] < losses[0][0]
    most, least = (max(row["peak_bytes"] for row in rows) for rows in (theirs, ours))
    # Of logits in float32 and their logarithms torch keeps one copy each at least.
    assert most - least > 2 * ours[0]["logits_bytes"]


def test_generating_is_the_seeds_and_is_timed():
    torch.manual_seed(1)
    model, text = Transformer(SMALL.size).to("cuda"), TEXT.to("cuda")
    given = prompts(text, SMALL, 3)
    for operators in (TORCH, OURS):
        found = generate(model, operators, given, 8, seed=1)
        assert torch.equal(found, generate(model, operators, given, 8, seed=1))
        assert not torch.equal(found, generate(model, operators, given, 8, seed=2))
    rows = list(report(model, (TORCH, OURS), SMALL, text))
    assert len(rows) == len(SMALL.batches) * 2 * 3
    assert {row["timer"] for row in rows if row["what"] == "sample"} >= {"call"}
