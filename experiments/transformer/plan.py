"""How large, how long, how often: the run on a GPU, and a tiny one that proves the path."""

from dataclasses import dataclass
from itertools import product

from experiments.transformer.model import Size
from experiments.transformer.operators import NAMES
from experiments.transformer.tables import BATCHES


@dataclass(frozen=True)
class Run:
    """One training run: operators by name, a seed, and whether its batches are turned around.

    A turned batch has the same sequences in another order: mean and gradients are the same but for
    what rounding makes of another order of sums.
    """

    operators: str
    seed: int
    turned: bool = False

    def __str__(self) -> str:
        return f"{self.operators}, seed {self.seed}{', turned' if self.turned else ''}"


@dataclass(frozen=True)
class Plan:
    """``batch`` sequences a step; the first ``warm_up`` steps are recorded, their times not used.

    ``learning_rate`` is reached after ``warm_up`` steps, on a line.
    """

    size: Size
    batch: int
    steps: int
    warm_up: int
    seeds: tuple[int, ...]
    batches: tuple[int, ...]  # of sampling and generating
    prompt: int  # tokens that are given
    generated: int  # tokens that are added
    repeats: int  # of the time of sampling
    generations: int  # and of that of generating
    # At 1e-3 torch's own roundings parted runs by 6.4%, more than two seeds' 4.2% (H200).
    learning_rate: float = 3e-4
    # Longer gradients are cut to this norm: a leap in one run of nine, of torch's own, parted it by
    # 6.2% from the others of its seed (H200, 8a34972), more than seeds do.
    longest_gradient: float = 1.0

    def runs(self) -> list[Run]:
        """Every run, torch's first: all operators of a seed, and torch's turned; then the next."""
        kinds = [(name, False) for name in NAMES] + [("torch", True)]
        return [Run(name, seed, turned) for seed, (name, turned) in product(self.seeds, kinds)]


# As many columns as GPT-2's vocabulary in the multiple of 128 that trains fastest: the text has
# fewer pieces, but what cross-entropy moves and holds is that of a language model.
FULL = Plan(
    Size(layers=6, heads=4, width=256, context=1024, vocabulary=50_304),
    batch=8, steps=300, warm_up=20, seeds=(1, 2, 3), batches=BATCHES, prompt=64, generated=64,
    repeats=15, generations=5,
)  # fmt: skip
SMOKE = Plan(
    Size(layers=2, heads=2, width=32, context=32, vocabulary=16_384),
    batch=2, steps=6, warm_up=2, seeds=(1,), batches=(1, 4), prompt=8, generated=4,
    repeats=3, generations=3,
)  # fmt: skip
