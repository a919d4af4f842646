"""The fingerprint of the code in kernels/ that serves the transformer: that of its operators."""

import hashlib
from functools import cache

from experiments.family.fingerprint import sha256_of

# What training calls, and the way to it; and what gives a token.
TRAINED = ("factors", "masks", "backward", "cross_entropy", "calls")
DECODED = ("attention", "sample", "calls")


@cache
def sha256_now(operators: tuple[str, ...]) -> str:
    """SHA-256 (hex) of what serves these operators now."""
    return hashlib.sha256("\n".join(map(sha256_of, operators)).encode()).hexdigest()
