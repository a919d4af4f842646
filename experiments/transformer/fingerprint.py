"""The fingerprint of the code in kernels/ that serves the transformer: that of its operators.

A table from before there was one is of code that is not recorded, and is stale, too.
"""

import hashlib
from functools import cache

import pandas as pd
import pandera.pandas as pa

from experiments.family.fingerprint import sha256_of
from experiments.tables import validated
from experiments.transformer.tables import UNKNOWN

# What training calls, and the way to it; and what gives a token.
TRAINED = ("factors", "masks", "backward", "cross_entropy", "calls")
DECODED = ("attention", "sample", "calls")
COLUMN = "kernel_sha256"


@cache
def sha256_now(operators: tuple[str, ...]) -> str:
    """SHA-256 (hex) of what serves these operators now."""
    return hashlib.sha256("\n".join(map(sha256_of, operators)).encode()).hexdigest()


def complete(schema: pa.DataFrameSchema, table: pd.DataFrame) -> pd.DataFrame:
    """``table`` in the types of ``schema``; of unknown code where it names none.

    Raises BadTable.
    """
    if COLUMN not in table:
        names = list(table.columns)
        table = table.assign(**{COLUMN: UNKNOWN})[[*names[:-1], COLUMN, *names[-1:]]]
    return validated(schema, table)


def stale(table: pd.DataFrame, operators: tuple[str, ...]) -> str:
    """Of which code the rows of ours are, if not of today's; '' where they are of today's."""
    found = set(table[COLUMN])
    if found == {sha256_now(operators)}:
        return ""
    return "code that is not recorded" if found == {UNKNOWN} else "earlier code"
