"""A sweep as it was recorded: its samples and its tidy table together."""

from pathlib import Path

from experiments.estimate import Recorded
from experiments.launched import BadRecord
from experiments.sweeps import SWEEPS
from experiments.tables import TIDY, BadTable, read_csv, read_raw, validated
from experiments.tidy import tidy


def recorded_sweep(sweep: str, raw_dir: Path, tidy_dir: Path | None) -> Recorded | None:
    """The measured ``sweep``; None where there is no raw file.  Raises BadTable."""
    path = raw_dir / f"{sweep}.csv.gz"
    if not path.exists():
        return None
    try:
        raw = read_raw(path)
        if tidy_dir is None:
            table = tidy(raw)
        else:
            path = tidy_dir / f"{sweep}.csv"
            table = validated(TIDY, read_csv(path))
    except BadRecord:  # says itself what is wrong
        raise
    except (BadTable, OSError, ValueError) as error:
        raise BadTable(f"{path} is not a table of this project: {error}") from error
    return Recorded.of(raw, table, SWEEPS[sweep].again, SWEEPS[sweep].points("full"))
