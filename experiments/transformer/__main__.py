"""Train and sample one transformer with torch's operators, with those compiled, and with ours.

    python -m experiments.transformer --training training.csv --decoding decoding.csv

On a CPU (--device cpu) it is a tiny one: it proves the path, and its times measure nothing.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import pandera.pandas as pa
import torch
import typer
from torch._dynamo.exc import BackendCompilerFailed

from experiments.hardware import commit
from experiments.tables import validated
from experiments.transformer.check import WrongOperator, check
from experiments.transformer.decoding import generate, prompts, report
from experiments.transformer.fingerprint import DECODED, TRAINED, sha256_now
from experiments.transformer.operators import OURS, TORCH, Operators, compiled
from experiments.transformer.plan import FULL, SMOKE, Plan
from experiments.transformer.tables import DECODING, TRAINING
from experiments.transformer.text import BadText, Vocabulary, shipped
from experiments.transformer.training import train


def run(plan: Plan, device: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
    """Rows of TRAINING and of DECODING without their code, and what was generated.

    Raises WrongOperator, BadText.
    """
    sets = {o.name: o for o in _sets(device)}
    text = shipped()
    vocabulary = Vocabulary.of(text, plan.size.vocabulary)
    tokens = vocabulary.encode(text).to(device)
    first, *others = (each for each in plan.runs() if each.operators in sets)
    model, rows = train(sets[first.operators], first, plan, tokens)
    for each in others:
        steps = train(sets[each.operators], each, plan, tokens)[1]
        print(f"{each}: loss {steps[-1]['loss']:.4f}, {steps[-1]['step_ms']:.1f} ms")
        rows += steps
    times = list(report(model, (TORCH, OURS), plan, tokens))
    given = prompts(tokens, plan, 1)
    said = vocabulary.decode(generate(model, OURS, given, plan.generated, seed=1)[0])
    return rows, times, said


def _sets(device: str) -> Iterator[Operators]:
    """The sets of operators, each once it is checked.  Raises WrongOperator."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    for operators in (TORCH, OURS):
        check(operators, device, dtype)
        yield operators
    if device == "cpu":
        return  # that takes a C++ compiler, and says nothing
    try:
        check(made := compiled(), device, dtype)
    except BackendCompilerFailed as error:  # such as without a C compiler
        print(f"torch.compile is left out: {str(error).splitlines()[0]}")
    else:
        yield made


def main(
    training: Annotated[Path, typer.Option(help="a row a step, a CSV")],
    decoding: Annotated[Path, typer.Option(help="a row a time, a CSV")],
    device: Annotated[str, typer.Option(help="cuda or cpu")] = "cuda",
) -> None:
    """Write what training and decoding took, and what the losses were."""
    if device not in ("cuda", "cpu"):
        print(f"device is cuda or cpu; got '{device}'", file=sys.stderr)
        raise typer.Exit(2)
    if device == "cuda" and not torch.cuda.is_available():
        print("PyTorch finds no GPU here: use --device cpu for the tiny run", file=sys.stderr)
        raise typer.Exit(2)
    if device == "cpu":
        torch.set_num_threads(1)  # of so small tensors threads would wait for one another
    try:
        rows, times, said = run(FULL if device == "cuda" else SMOKE, device)
    except (BadText, WrongOperator, torch.OutOfMemoryError) as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        raise typer.Exit(1) from error
    _write(TRAINING, rows, training, sha256_now(TRAINED))
    _write(DECODING, times, decoding, sha256_now(DECODED))
    print(said)


def _write(schema: pa.DataFrameSchema, rows: list[dict[str, Any]], path: Path, sha256: str) -> None:
    table = pd.DataFrame(rows).assign(kernel_sha256=sha256, code_commit=commit())
    table = table.reindex(columns=list(schema.columns))
    path.parent.mkdir(parents=True, exist_ok=True)
    validated(schema, table).to_csv(path, index=False)


if __name__ == "__main__":
    typer.run(main)
