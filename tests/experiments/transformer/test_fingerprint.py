"""The transformer's fingerprint: its tables are stale once what serves them is another."""

import pandas as pd
import pytest

from experiments.family import fingerprint as of_operators
from experiments.tables import BadTable
from experiments.transformer import fingerprint
from experiments.transformer.fingerprint import DECODED, TRAINED, sha256_now
from experiments.transformer.stale import complete, other_code
from experiments.transformer.summary import markdown, summary
from experiments.transformer.tables import DECODING, TRAINING
from tests.experiments.trained import decoded, trained


@pytest.mark.parametrize(
    ("operator", "operators"),
    [
        ("cross_entropy", [TRAINED]),
        ("calls", [TRAINED, DECODED]),
        ("attention", [DECODED]),
        ("columns", []),
    ],
)
def test_it_follows_that_of_the_operators(
    operator: str, operators: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
):
    before = {names: sha256_now(names) for names in (TRAINED, DECODED)}
    known = of_operators.sha256_of
    monkeypatch.setattr(
        fingerprint, "sha256_of", lambda name: "b" * 64 if name == operator else known(name)
    )
    sha256_now.cache_clear()
    changed = [names for names in before if sha256_now(names) != before[names]]
    sha256_now.cache_clear()
    assert changed == operators


def test_a_table_of_today_is_not_stale():
    assert other_code(complete(TRAINING, trained()), TRAINED) == ""
    assert other_code(complete(DECODING, decoded()), DECODED) == ""
    assert "Stale" not in markdown(trained(), decoded())
    assert not summary(trained())["stale"].any()


@pytest.mark.parametrize(
    ("old", "told"),
    [
        (lambda table: table.assign(kernel_sha256="a" * 64), "earlier code"),
        (lambda table: table.drop(columns="kernel_sha256"), "code that is not recorded"),
    ],
)
def test_ours_is_stale_with_other_code_and_where_none_is_recorded(old, told: str):
    training, decoding = complete(TRAINING, old(trained())), complete(DECODING, old(decoded()))
    found = summary(training)
    assert found.loc[found["stale"], "operators"].tolist() == ["ours"]
    text = markdown(training, decoding)
    assert (
        f"\n\nStale: ours was trained with {told}.\n\nStale: ours was timed with {told}.\n\n|"
        in text
    )


def test_another_table_is_not_taken_for_an_older_one():
    with pytest.raises(BadTable, match="missing or unknown columns: a, b, batch"):
        complete(DECODING, pd.DataFrame({"a": [1], "b": [2]}))
