"""What the page needs, for the workflow: read from the post itself, and quick to import."""

import re
from pathlib import Path

HERE = Path(__file__).parent
FIGURE = re.compile(r'call figure\("(\w+)"')
# The sweeps of the explorer, in the order in which the post comes to them.
SWEEPS = (
    "vocab_scaling", "frontier", "batch_scaling", "small_batch", "few_rows", "tutorial_cols",
    "cuda_ladder", "worklog", "numerics", "launch", "course_shapes", "topk",
)  # fmt: skip


def files() -> list[Path]:
    """The post's files, in order."""
    return sorted((HERE / "post").glob("*.md"))


def figures() -> list[str]:
    """The figures that the post shows, in order."""
    return [name for path in files() for name in FIGURE.findall(path.read_text())]
