"""Whether a table of the transformer is of today's kernels.

One from before tables told their kernels is of code that is not recorded, and is stale, too.
"""

import pandas as pd
import pandera.pandas as pa

from experiments.tables import validated
from experiments.transformer.fingerprint import sha256_now
from experiments.transformer.tables import UNKNOWN

COLUMN = "kernel_sha256"


def complete(schema: pa.DataFrameSchema, table: pd.DataFrame) -> pd.DataFrame:
    """``table`` in the types of ``schema``; of unknown code where it names none.

    Raises BadTable.
    """
    if COLUMN not in table:
        names = list(table.columns)
        table = table.assign(**{COLUMN: UNKNOWN})[[*names[:-1], COLUMN, *names[-1:]]]
    return validated(schema, table)


def other_code(table: pd.DataFrame, operators: tuple[str, ...]) -> str:
    """Of which code the rows of ours are, if not of today's; '' where they are of today's."""
    found = set(table[COLUMN])
    if found == {sha256_now(operators)}:
        return ""
    return "code that is not recorded" if found == {UNKNOWN} else "earlier code"
