"""Blocks of a sweep to its raw file: their rows, in the order of the blocks.

python -m experiments.gather --out raw/smoke.csv.gz block-0.csv.gz block-1.csv.gz
"""

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from experiments.tables import BadTable, read_raw, write_raw


def main(blocks: list[Path], out: Annotated[Path, typer.Option()]) -> None:
    """Validate and join finished blocks."""
    tables = []
    for path in blocks:
        try:
            tables.append(read_raw(path))
        except BadTable as error:
            print(f"{path} is not a finished block: {error}. Remove it and run again.")
            raise typer.Exit(2) from error
    out.parent.mkdir(parents=True, exist_ok=True)
    write_raw(pd.concat(tables, ignore_index=True), out)


if __name__ == "__main__":
    typer.run(main)
