"""What earlier code launched on an H200, at a place of each of three regimes."""

import pandas as pd

from experiments.hardware import environment_sha256
from experiments.launched import KEY, Gpu, launched_sha256
from experiments.layout import Place

H200 = Gpu("nvidia-h200", 90, 132)
FACTS = {
    "source": "local-nvidia-h200", "mode": "full", "code_commit": "a" * 40, "gpu": "NVIDIA H200",
    "compute_capability": [9, 0], "multiprocessors": 132,
}  # fmt: skip
ENVIRONMENT = environment_sha256(FACTS)
EARLIER = "c" * 64
# By the regime that serves it.
PLACES = {
    "warp": Place("float32", 65_536, 256),
    "cluster": Place("float32", 4096, 32_768),
    "chunks": Place("float32", 128, 2**20),
}


def lines(*places: Place, sha: str = EARLIER, variant: str = "frontier") -> pd.DataFrame:
    """A record that earlier code launched at ``places`` what today's does."""
    told = [
        dict(zip(KEY, (sha, variant, p.layout, *p[:3]), strict=True))
        | {"launched_sha256": launched_sha256(variant, p, H200)}
        for p in places
    ]
    return pd.DataFrame(told)
