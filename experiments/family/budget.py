"""How long will measuring the operators take on an H200?  Counted from bytes, before it begins.

python -m experiments.family.budget --mode full
"""

from typing import Annotated

import typer

from experiments.family import OPERATORS, Operator
from experiments.family.operator import BLOCKS, Case

# An H200's copy, and what Hopper's tensor cores give attention.
BYTES_PER_S, FLOPS_PER_S = 4.2e12, 5e14
# Of experiments/timer.py, which imports torch; and what a call takes at least.
REPLAY_BYTES, REPLAY_NS, MOST_PAIRS = 2**31, 5e6, 64
LEAST_S = 8e-6
# A guess: implementations take three times what is ideal, on average; a capture is three samples
# more, a check some 20 trips through memory, and a process starts in 4 s.
TIMES_IDEAL, CAPTURE, CHECK_TRIPS, START_S = 3.0, 3, 20, 4.0


def seconds_of(operator: Operator, case: Case, samples: int) -> float:
    """Seconds of one case in one block."""
    n_bytes, flops = operator.n_bytes(case), operator.flops(case)
    ideal = max(n_bytes / BYTES_PER_S, flops / FLOPS_PER_S if flops == flops else 0.0)
    call = max(LEAST_S, TIMES_IDEAL * ideal)
    wanted, allowed = -(-REPLAY_BYTES // n_bytes), int(REPLAY_NS / 1e9 / call)
    calls = max(1, min(MOST_PAIRS, wanted, allowed))
    check = CHECK_TRIPS * n_bytes / BYTES_PER_S
    return len(operator.implementations) * ((samples + CAPTURE) * calls * call + check)


def seconds(operator: Operator, mode: str, blocks: int) -> float:
    """Seconds of ``blocks`` processes of ``operator``, compilers' time left out."""
    samples = operator.samples(mode)
    of_cases = sum(seconds_of(operator, case, samples) for case in operator.in_mode(mode))
    return blocks * (START_S + of_cases)


def main(mode: Annotated[str, typer.Option(help="full or quick")] = "full") -> None:
    """Print cases, implementations and seconds of every operator."""
    if mode not in BLOCKS:
        raise typer.BadParameter(f"unknown mode '{mode}'; known: {', '.join(BLOCKS)}")
    total = 0.0
    for name, operator in OPERATORS.items():
        found = seconds(operator, mode, BLOCKS[mode])
        total += found
        count = len(operator.in_mode(mode))
        print(f"{name:15} {count:3} cases {len(operator.implementations):2} entries {found:6.1f} s")
    print(f"{'all':15} {BLOCKS[mode]} blocks each, about {total:.0f} s, compilers' time left out")


if __name__ == "__main__":
    typer.run(main)
