"""How long the parts of a recorded run took, by the benchmark files that Snakemake wrote.

Standard library alone: `make doctor` says it before anything is installed.
"""

import csv
from pathlib import Path

# Their time is asked for by name, and is no part of a run of every sweep.
BY_NAME = ("profile", "sanitizer", "transformer")


class BadBenchmark(ValueError):
    """A benchmark file cannot be read; the message names it."""


def minutes(archive: Path) -> dict[str, float]:
    """Minutes by the name of a sweep, of `prepare` or of one of BY_NAME, as far as recorded.

    ``archive`` is the folder of one GPU.  Raises BadBenchmark where a file is none of Snakemake's.
    """
    found = {}
    for path in sorted(archive.glob("benchmarks/*.tsv")):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        try:
            found[path.stem] = float(rows[-1]["s"]) / 60
        except (IndexError, KeyError, ValueError) as error:
            raise BadBenchmark(
                f"{path} is no benchmark file of Snakemake: expected seconds in the column s"
            ) from error
    return found


def full_run(archive: Path) -> float:
    """Minutes of the checks and every sweep; 0 where no time was recorded."""
    return sum(value for name, value in minutes(archive).items() if name not in BY_NAME)


def times_all_of(archive: Path, other: Path) -> bool:
    """Whether ``archive`` has times, and of each part of a full run that ``other`` has one of."""
    mine, parts = minutes(archive), minutes(other).keys() - {*BY_NAME}
    return bool(mine) and parts <= mine.keys()
