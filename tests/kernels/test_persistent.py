"""How many programs of triton_persistent fit follows from the compilation that is launched."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernels.triton import triton_persistent

GPU = {"max_shared_mem": 232_448, "max_num_regs": 65_536, "warpSize": 32,
       "multiprocessor_count": 132}  # fmt: skip


@pytest.fixture(autouse=True)
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Stands in for a GPU; a kernel of one row, or of odd columns, takes more registers."""
    seen: list[tuple[int, ...]] = []

    def warmup(x: Any, out: Any, x_stride: int, out_stride: int, rows: int, cols: int, **_: object):
        seen.append((rows, cols))
        registers = 64 if rows == 1 else 128 if cols % 16 else 32
        return SimpleNamespace(
            n_regs=registers, metadata=SimpleNamespace(shared=20_000), _init_handles=lambda: None
        )

    properties = SimpleNamespace(get_device_properties=lambda index: GPU)
    driver = SimpleNamespace(active=SimpleNamespace(utils=properties))
    runtime = SimpleNamespace(driver=driver)
    monkeypatch.setattr(triton_persistent, "triton", SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(triton_persistent, "_softmax", SimpleNamespace(warmup=warmup))
    monkeypatch.setattr(triton_persistent, "_programs", {})
    return seen


def fit(rows: int, cols: int, stride: int | None = None) -> tuple[int, int]:
    x = SimpleNamespace(
        is_cuda=True, device=torch.device("cuda", 0), dtype=torch.float32, shape=(rows, cols),
        stride=lambda dim: stride or cols,
    )  # fmt: skip
    return triton_persistent.fit(x, x, 1024)  # pyright: ignore[reportArgumentType]


SHAPES = [(1, 1024), (64, 1024), (64, 1001)]


@pytest.mark.parametrize("shapes", [SHAPES, SHAPES[::-1]], ids=["one row first", "one row last"])
def test_it_does_not_matter_what_came_before(shapes: list[tuple[int, int]]):
    # 65,536 registers over 256 threads of 64, 32 and 128; shared memory has room for 11.
    found = {shape: fit(*shape) for shape in shapes}
    assert found == {(1, 1024): (132 * 4, 4), (64, 1024): (132 * 8, 4), (64, 1001): (132 * 2, 4)}


def test_what_is_compiled_once_is_asked_once(compilations: list[tuple[int, ...]]):
    for rows in (64, 1024, 64):
        fit(rows, 1024)
    assert compilations == [(64, 1024)]
    fit(64, 1024, stride=1025)
    assert len(compilations) == 2
