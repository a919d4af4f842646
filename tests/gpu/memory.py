"""Of tests that take most of a GPU's memory."""

import pytest
import torch


def needs(n_bytes: int) -> None:
    """Skip where the GPU has less memory than ``n_bytes`` and a tenth of it for all else.

    Its memory, not what is free: that others hold it is no reason not to have tested.
    """
    there = torch.cuda.mem_get_info()[1]
    if there < 1.1 * n_bytes:
        pytest.skip(f"needs a GPU of {1.1 * n_bytes / 2**30:.0f} GiB, this has {there / 2**30:.0f}")
