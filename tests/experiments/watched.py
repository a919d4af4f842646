"""A SANITIZER table in which every tool was silent but for the planted faults."""

from collections.abc import Collection

import pandas as pd

from experiments.sanitize import Run, table
from experiments.sanitized import PLANTED
from experiments.sanitizer import TOOLS
from kernels.frontier.plans import REGIMES
from tests.experiments.counted import COMMIT
from tests.experiments.test_sanitizer import BARRIER, CLEAN, NO_HAZARDS, OUTSIDE, RACE

FOUND = dict(zip(TOOLS, (OUTSIDE, RACE, BARRIER), strict=True))
SILENT = dict(zip(TOOLS, (CLEAN, NO_HAZARDS, CLEAN), strict=True))


def sanitized(found_in: Collection[str] = ()) -> pd.DataFrame:
    """Every tool on every regime; faults in the regimes ``found_in`` too."""
    runs = [
        Run(tool, regime, (FOUND if regime in (PLANTED, *found_in) else SILENT)[tool], "", 0, 9.5)
        for tool in TOOLS
        for regime in (*REGIMES, PLANTED)
    ]
    return table(runs, {}, "Compute Sanitizer 2025.3.1.0", COMMIT)
