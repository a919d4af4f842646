"""What autotuning chose is recorded with the times that it made."""

from types import ModuleType, SimpleNamespace

import pytest

from kernels.launch import tuned


def kernel(**settings: int) -> SimpleNamespace:
    """As Inductor leaves an autotuned kernel: its fastest launcher first."""
    config = SimpleNamespace(kwargs=settings, num_warps=4)
    return SimpleNamespace(launchers=[SimpleNamespace(config=config)])


def loaded(**names: object) -> ModuleType:
    module = ModuleType("generated")
    vars(module).update(names)
    return module


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> list[ModuleType]:
    from torch._inductor.codecache import PyCodeCache

    from kernels.torch import torch_compile

    found: list[ModuleType] = []
    monkeypatch.setattr(PyCodeCache, "modules", found)
    monkeypatch.setattr(torch_compile, "_asked", [0])
    return found


def test_each_kernel_is_named_once_and_only_when_it_is_new(modules: list[ModuleType]):
    assert tuned("torch_compile") == ""
    first = kernel(XBLOCK=1, R0_BLOCK=2048)
    modules += [loaded(red_0=first), loaded(call=print, red_0=first, red_1=kernel(XBLOCK=8))]
    expected = "red_0(XBLOCK=1, R0_BLOCK=2048, num_warps=4), red_1(XBLOCK=8, num_warps=4)"
    assert tuned("torch_compile") == expected
    assert tuned("torch_compile") == ""
    modules.append(loaded(red_0=kernel(XBLOCK=2)))
    assert tuned("torch_compile") == "red_0(XBLOCK=2, num_warps=4)"


@pytest.mark.parametrize("name", ["cuda_float4", "triton_row", "torch_eager"])
def test_a_variant_without_autotuning_chose_nothing(name: str):
    assert tuned(name) == ""
