"""The fingerprint of the code in kernels/ that serves an operator, without comments and layout."""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from experiments.family import OPERATORS
from kernels.fingerprint import _cuda, _python, sha256_now
from kernels.frontier.plans import REGIMES

KERNELS = Path(__file__).parents[2] / "kernels"
# In a pattern's place: the kernels of the plain softmax.
SOFTMAX = "regimes"


def files(operator: str) -> Iterator[Path]:
    """The files that are named in the operator's ``code``.

    What those in folders of kernels/ import there belongs to them; what those in kernels/ itself
    import is named, too, where it shall count.
    """
    for pattern in OPERATORS[operator].code:
        if pattern == SOFTMAX:
            found = [KERNELS / "frontier" / f"{regime}.cu" for regime in sorted(REGIMES)]
        else:
            found = sorted(KERNELS.glob(pattern))
        if not found and "tables/" not in pattern:  # without a table shapes go by rule
            raise ValueError(f"no file in kernels/ is '{pattern}', which serves {operator}")
        yield from found


@cache
def sha256_of(operator: str) -> str:
    """SHA-256 (hex) of what serves ``operator`` now; empty if there is no such operator."""
    if operator not in OPERATORS:
        return ""
    return hashlib.sha256("\n".join(map(_code, files(operator))).encode()).hexdigest()


def sha256_by_name(name: str) -> str:
    """The same of the variant or the operator ``name``; empty if there is neither."""
    return sha256_now(name) or sha256_of(name)


def _code(path: Path) -> str:
    readers = {".cu": _cuda, ".py": _python}
    return readers[path.suffix](path) if path.suffix in readers else path.read_text()
