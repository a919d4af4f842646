"""Names of things outside as parts of paths."""

import re


def slug(name: str) -> str:
    """A name fit for a folder: 'NVIDIA H200' becomes 'nvidia-h200'."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
