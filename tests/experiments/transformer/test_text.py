"""The text is cut into pieces that give it back, in the same order on every machine."""

from pathlib import Path

import pytest
import torch

from experiments.transformer.plan import FULL, SMOKE
from experiments.transformer.text import UNUSED, BadText, Vocabulary, places, shipped


def test_the_shipped_text_comes_back_from_its_tokens():
    text = shipped()
    for plan in (FULL, SMOKE):
        vocabulary = Vocabulary.of(text, plan.size.vocabulary)
        tokens = vocabulary.encode(text)
        assert len(tokens) > 50 * plan.size.context
        assert int(tokens.max()) < plan.size.vocabulary
        assert vocabulary.decode(tokens) == text


def test_what_is_frequent_comes_first_and_ties_by_name():
    vocabulary = Vocabulary.of("b a a\n\n  c; a", 10)
    assert vocabulary.pieces == (" a", "\n\n  ", ";", "b", "c")
    assert vocabulary.encode("b a;").tolist() == [3, 0, 2]
    assert vocabulary.decode(torch.tensor([0, 9])) == f" a{UNUSED}"


def test_an_unknown_word_and_a_text_that_does_not_fit_are_one_sentence(tmp_path: Path):
    vocabulary = Vocabulary.of("some words", 10)
    with pytest.raises(BadText, match=r"' other' is none of the 2 pieces .*: take words of it"):
        vocabulary.encode("some other")
    with pytest.raises(BadText, match="the text has 2 pieces; expected 1 to 1"):
        Vocabulary.of("some words", 1)
    with pytest.raises(BadText, match="the text has 12 tokens; expected more than 12"):
        places(12, 12, (1,), seed=1)
    with pytest.raises(BadText, match="run it from the checkout"):
        shipped(tmp_path)


def test_the_order_is_the_seeds_alone_and_every_place_is_drawn():
    first = places(20, 12, (300, 4), seed=1)
    torch.manual_seed(77)
    assert torch.equal(first, places(20, 12, (300, 4), seed=1))
    assert not torch.equal(first, places(20, 12, (300, 4), seed=2))
    # The last place leaves room for the token that follows the sequence.
    assert set(first.flatten().tolist()) == set(range(20 - 12))
    assert first[0].tolist() == [5, 3, 4, 0]
