"""Tables of the frontier as a GPU would give them: SANITIZER, LAYOUTS."""

from collections.abc import Collection

import pandas as pd

from experiments.layout import LAYOUTS, points
from experiments.sanitize import Run, table
from experiments.sanitizer import NAMES, PLANTED, TOOLS
from experiments.tables import LAYOUTS as LAYOUTS_TABLE
from experiments.tables import validated
from tests.experiments.counted import COMMIT
from tests.experiments.raw import fingerprint
from tests.experiments.test_sanitizer import BARRIER, CLEAN, NO_HAZARDS, OUTSIDE, RACE

FOUND = dict(zip(TOOLS, (OUTSIDE, RACE, BARRIER), strict=True))
SILENT = dict(zip(TOOLS, (CLEAN, NO_HAZARDS, CLEAN), strict=True))


def sanitized(found_in: Collection[str] = ()) -> pd.DataFrame:
    """Every tool on every regime and operator; faults in those ``found_in`` too."""
    runs = [
        Run(tool, regime, (FOUND if regime in (PLANTED, *found_in) else SILENT)[tool], "", 0, 9.5)
        for tool in TOOLS
        for regime in (*NAMES, PLANTED)
    ]
    return table(runs, {}, "Compute Sanitizer 2025.3.1.0", COMMIT)


def placed_rows(fraction: float = 0.98, **changes: object) -> pd.DataFrame:
    """A LAYOUTS table of one fraction of copy, a little less where rows are not contiguous."""
    rows = [
        {
            "variant": "frontier", "layout": layout.name, **point._asdict(), "status": "ok",
            "reason": "", "median_us": 250.0 / fraction, "copy_us": 250.0,
            "fraction_of_copy": fraction - lower, "fraction_low": fraction - lower - 0.005,
            "fraction_high": fraction - lower + 0.004, "n_samples": 15,
            "kernel_sha256": fingerprint("frontier"), "code_commit": COMMIT, **changes,
        }
        for point in points()
        for layout in LAYOUTS
        for lower in (0.0 if layout.contiguous else 0.01,)
    ]  # fmt: skip
    return validated(LAYOUTS_TABLE, pd.DataFrame(rows).reindex(columns=list(LAYOUTS_TABLE.columns)))
