"""An operator's fingerprint follows its code and no comment; budgets follow its bytes."""

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from experiments import timer
from experiments.family import OPERATORS, budget, fingerprint
from experiments.family.fingerprint import files, sha256_of
from experiments.family.operator import BLOCKS
from tests.commands import module

MOST_SECONDS = 350


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of kernels/ that the fingerprints are of."""
    copied = copytree(fingerprint.KERNELS, tmp_path / "kernels")
    monkeypatch.setattr(fingerprint, "KERNELS", copied)
    sha256_of.cache_clear()
    yield copied
    sha256_of.cache_clear()


def changed(path: Path, text: str) -> list[str]:
    """The operators whose fingerprint differs once ``text`` stands at the end of ``path``."""
    before = {name: sha256_of(name) for name in OPERATORS}
    path.write_text(path.read_text() + text)
    sha256_of.cache_clear()
    return [name for name in OPERATORS if sha256_of(name) != before[name]]


@pytest.mark.parametrize(
    ("file", "text", "operators"),
    [
        ("frontier/columns_held.cu", "\n__device__ int more;\n", ["columns"]),
        ("frontier/columns_held.cu", "\n// a comment\n", []),
        ("frontier/columns_plans.py", "\nMORE = 1\n", ["columns", "calls"]),
        ("frontier/backward.cuh", "\n__device__ int more;\n", ["backward"]),
        ("frontier/candidates.cuh", "\n__device__ int more;\n", ["topk_softmax", "sample"]),
        ("prepared.py", "\nMORE = 1\n", ["calls"]),
        ("frontier/choice.py", "\nMORE = 1\n", ["topk_softmax", "sample"]),
        ("frontier/block.cu", "\n__device__ int more;\n", ["factors", "masks"]),
        ("cross_entropy_ops.py", "\nMORE = 1\n", ["cross_entropy"]),
        ("cross_entropy_ops.py", "\n# a comment\n", []),
        ("triton/triton_attention.py", "\nMORE = 1\n", ["attention", "calls"]),
        ("triton/triton_row.py", "\nMORE = 1\n", []),
    ],
)
def test_it_is_that_of_what_serves_the_operator(
    file: str, text: str, operators: list[str], kernels: Path
):
    assert changed(kernels / file, text) == operators


def test_a_pattern_that_finds_nothing_is_named(kernels: Path):
    for path in kernels.glob("frontier/columns_*.cu"):
        path.unlink()
    with pytest.raises(ValueError, match=r"no file in kernels/ is 'frontier/columns_\*.cu'"):
        list(files("columns"))


def test_an_unknown_operator_has_none():
    assert sha256_of("nonsense") == ""


def test_the_budget_counts_as_the_timer_does():
    for name in ("REPLAY_BYTES", "REPLAY_NS", "MOST_PAIRS"):
        assert getattr(budget, name) == getattr(timer, name)


def test_a_full_run_fits_its_budget():
    found = {mode: sum(budget.seconds(o, mode, BLOCKS[mode]) for o in OPERATORS.values())
             for mode in ("quick", "full")}  # fmt: skip
    assert found["quick"] < found["full"] / 2
    assert found["full"] < MOST_SECONDS
    done = module("experiments.family.budget")
    assert done.returncode == 0
    assert f"about {found['full']:.0f} s" in done.stdout
