"""Both sets of operators in one model: the loss and the gradients of float64, and no future."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from experiments.transformer.model import Size, Transformer
from experiments.transformer.operators import TORCH, Operators
from experiments.transformer.plan import FULL
from tests.experiments.trained import trained
from tests.experiments.transformer.small import SETS, SIZE, TEXT, WRONG, model

TOKENS = TEXT[:24].view(2, 12)
FOLLOWING = TEXT[1:25].view(2, 12)
NAMES = [operators.name for operators in SETS]


def gradients(operators: Operators, dtype: torch.dtype) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of one batch, and its gradient by every weight."""
    made = model().to(dtype)
    loss = operators.cross_entropy(made(TOKENS, operators), FOLLOWING)
    loss.backward()
    return loss.detach(), {
        name: w.grad for name, w in made.named_parameters() if w.grad is not None
    }


def relative(mine: Tensor, right: Tensor) -> float:
    return float((mine.double() - right).norm() / right.norm())


@pytest.mark.parametrize("operators", SETS, ids=NAMES)
def test_loss_and_gradients_are_those_of_float64(operators: Operators):
    # Torch's cross-entropy takes float32 logits: in float64 it is plain.
    exact = replace(TORCH, cross_entropy=lambda x, t: torch.nn.functional.cross_entropy(
        x.flatten(0, 1), t.flatten()))  # fmt: skip
    wanted, slopes = gradients(exact, torch.float64)
    loss, found = gradients(operators, torch.float32)
    assert wanted.dtype == torch.float64
    assert float(loss) == pytest.approx(float(wanted), rel=1e-6)
    assert len(found) == len(slopes) == len(list(model().parameters()))
    for name, slope in slopes.items():
        assert relative(found[name], slope) < 1e-5, name


TRAINED = [operators for what, operators in WRONG if what in ("softmax", "cross_entropy")]


@pytest.mark.parametrize("operators", TRAINED)
def test_a_wrong_operator_shows_in_the_gradients(operators: Operators):
    _, right = gradients(TORCH, torch.float32)
    _, found = gradients(operators, torch.float32)
    assert max(relative(found[name], right[name].double()) for name in right) > 0.1


@pytest.mark.parametrize("operators", SETS, ids=NAMES)
def test_without_a_gradient_it_is_the_same_model(operators: Operators):
    made = model()
    training = made(TOKENS, operators).detach()
    with torch.no_grad():
        torch.testing.assert_close(made(TOKENS, operators), training, rtol=1e-4, atol=1e-4)
        last = made(TOKENS, operators, last=True)
        torch.testing.assert_close(last, training[:, -1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("operators", SETS, ids=NAMES)
def test_what_follows_changes_nothing_before(operators: Operators, grad: bool):
    made, other = model(), TOKENS.clone()
    other[:, 7:] = 0
    with torch.set_grad_enabled(grad):
        mine, theirs = made(TOKENS, operators), made(other, operators)
    torch.testing.assert_close(mine[:, :7], theirs[:, :7])
    assert not torch.allclose(mine[:, 7:], theirs[:, 7:])


def test_the_head_is_the_embedding_and_gives_its_count():
    made = Transformer(SIZE)
    width, layers = SIZE.width, SIZE.layers
    numbers = (64 + 12 + 12 * layers * width) * width + (2 * layers + 1) * width
    assert made.parameter_count() == numbers
    assert Transformer(FULL.size).parameter_count() == trained()["parameters"][0]
    twin = copy.deepcopy(made)
    with torch.no_grad():
        twin.tokens.weight[3] *= 2
        # Token 3 is not read: its column of the logits alone is another.
        tokens = torch.tensor([[1, 2]])
        mine, theirs = made(tokens, TORCH), twin(tokens, TORCH)
    torch.testing.assert_close(theirs[..., 3], 2 * mine[..., 3])
    torch.testing.assert_close(theirs[..., 4:], mine[..., 4:])


def test_what_it_cannot_take_is_one_sentence():
    with pytest.raises(ValueError, match="reads at most 12 tokens; got 13: leave the first ones"):
        model()(TEXT[None, :13], TORCH)
    with pytest.raises(ValueError, match="divided among its heads; got 16 and 3"):
        Transformer(Size(layers=1, heads=3, width=16, context=4, vocabulary=8))
