"""Training: equal batches and weights for equal seeds, and losses that tell operators apart."""

import torch
from torch.nn import functional

from experiments.transformer.model import Transformer
from experiments.transformer.operators import OURS, TORCH, Operators
from experiments.transformer.plan import FULL, Run
from experiments.transformer.training import batches, train
from tests.experiments.transformer.small import PLAN, TEXT, WRONG


def losses(operators: Operators, run: Run) -> torch.Tensor:
    return torch.tensor([row["loss"] for row in train(operators, run, PLAN, TEXT)[1]])


def test_batches_are_of_the_seed_and_each_target_follows_its_token():
    run = Run("torch", seed=1)
    first, again = list(batches(TEXT, PLAN, run)), list(batches(TEXT, PLAN, Run("ours", seed=1)))
    assert len(first) == PLAN.steps
    for (tokens, following), (same, _) in zip(first, again, strict=True):
        assert tokens.shape == following.shape == (PLAN.batch, PLAN.size.context)
        assert torch.equal(tokens, same)
        assert torch.equal(tokens[:, 1:], following[:, :-1])
    other, _ = next(batches(TEXT, PLAN, Run("torch", seed=2)))
    assert not torch.equal(first[0][0], other)


def test_a_turned_batch_has_the_same_sequences_in_another_order():
    run, turned = Run("torch", 1), Run("torch", 1, turned=True)
    for (a, b), (c, d) in zip(batches(TEXT, PLAN, run), batches(TEXT, PLAN, turned), strict=True):
        assert torch.equal(a, c.flip(0))
        assert torch.equal(b, d.flip(0))


def test_the_loss_falls_and_is_the_seeds():
    run = Run("torch", seed=1)
    found = losses(TORCH, run)
    assert found[-1] < found[0]
    torch.manual_seed(99)
    assert torch.equal(found, losses(TORCH, run))
    assert not torch.equal(found, losses(TORCH, Run("torch", seed=2)))


def test_a_step_is_that_of_adam_at_a_rate_that_rises():
    run = Run("torch", seed=1)
    torch.manual_seed(run.seed)
    model = Transformer(PLAN.size)
    optimiser = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95))
    wanted, cut = [], []
    for step, (tokens, following) in enumerate(batches(TEXT, PLAN, run), start=1):
        for group in optimiser.param_groups:
            group["lr"] = PLAN.learning_rate * min(1.0, step / PLAN.warm_up)
        loss = functional.cross_entropy(model(tokens, TORCH).flatten(0, 1), following.flatten())
        wanted.append(loss.item())
        optimiser.zero_grad()  # a step has its own gradients alone
        loss.backward()
        norm = torch.cat(
            [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        ).norm()
        cut.append(bool(norm > PLAN.longest_gradient))
        for p in model.parameters():
            assert p.grad is not None
            p.grad *= PLAN.longest_gradient / max(float(norm), PLAN.longest_gradient)
        optimiser.step()
    assert set(cut) == {False, True}
    torch.testing.assert_close(losses(TORCH, run), torch.tensor(wanted), rtol=1e-6, atol=0)


def test_ours_and_a_turned_run_differ_by_rounding_and_a_wrong_operator_by_more():
    right = losses(TORCH, Run("torch", 1))
    torch.testing.assert_close(losses(OURS, Run("ours", 1)), right, rtol=1e-4, atol=0)
    turned = losses(TORCH, Run("torch", 1, turned=True))
    torch.testing.assert_close(turned, right, rtol=1e-4, atol=0)
    # Adam divides a gradient by its size: of half a gradient it sees nothing, the check does.
    for operators in (operators for what, operators in WRONG if what == "softmax"):
        found = losses(operators, Run("ours", 1))
        assert float(((found - right).abs() / right).max()) > 5e-3, operators


def test_every_step_is_a_row():
    _, rows = train(TORCH, Run("torch", 1, turned=True), PLAN, TEXT)
    assert [row["step"] for row in rows] == list(range(1, PLAN.steps + 1))
    assert [row["warm_up"] for row in rows] == [True] * 2 + [False] * 6
    assert {(row["operators"], row["seed"], row["turned"]) for row in rows} == {("torch", 1, True)}
    assert {row["tokens"] for row in rows} == {48}
    assert {row["logits_bytes"] for row in rows} == {48 * 64 * 2}
    assert all(row["step_ms"] > 0 for row in rows)


def test_torch_is_run_first_and_otherwise_too():
    runs = FULL.runs()
    assert runs[0] == Run("torch", 1)
    assert len(set(runs)) == len(runs) == 4 * len(FULL.seeds)
    assert {(r.operators, r.turned) for r in runs} == {
        ("torch", False), ("torch", True), ("compiled", False), ("ours", False),
    }  # fmt: skip
