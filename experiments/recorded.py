"""A sweep as it was recorded: its samples and its tidy table together."""

from pathlib import Path

import pandas as pd

from experiments.estimate import Recorded
from experiments.sweeps import SWEEPS
from experiments.tables import TIDY, read_csv, read_raw, reading, validated
from experiments.tidy import tidy


def recorded_sweep(sweep: str, raw_dir: Path, tidy_dir: Path | None) -> Recorded | None:
    """The measured ``sweep``; None where there is no raw file.  Raises BadTable naming the file."""
    path = raw_dir / f"{sweep}.csv.gz"
    if not path.exists():
        return None
    with reading(path):
        raw = read_raw(path)
        table = tidy(raw) if tidy_dir is None else _tidied(tidy_dir / f"{sweep}.csv")
    return Recorded.of(raw, table, SWEEPS[sweep].again, SWEEPS[sweep].points("full"))


def _tidied(path: Path) -> pd.DataFrame:
    with reading(path):
        return validated(TIDY, read_csv(path))
