"""What ncu counted (profile.csv), beside today's code."""

from pathlib import Path

import pandas as pd

from experiments.tables import PROFILE, read_csv, validated
from kernels.fingerprint import variant_sha256
from kernels.registry import BY_NAME


def read_counts(path: Path) -> pd.DataFrame:
    """The PROFILE table in ``path``, and whether each row is of earlier code: ``stale``.

    Raises BadTable where it is no such table, OSError and ValueError where it is none at all.
    """
    table = validated(PROFILE, read_csv(path))
    now = {name: variant_sha256(v) for name, v in BY_NAME.items()}
    return table.assign(stale=table["variant"].map(now) != table["kernel_sha256"])
