"""S3, the course module."""

import torch

from experiments.check import check, planted
from tests.reference import DEVICE
from tests.wrong import tiles


def test_the_modules_own_wide_shape_is_wrong():
    x = planted(16, 8192, torch.float32, DEVICE, seed=0)
    y = tiles.capped_block(x, torch.full_like(x, float("nan")), cap=1024)
    assert not check(x, y).ok
    assert y[:, 1024:].isnan().all()  # never written
    assert check(x, tiles.capped_block(x, torch.empty_like(x), cap=None)).ok


def test_order_is_not_strict():
    x = torch.tensor([[0.0, -200.0, -300.0]])
    y = torch.softmax(x, dim=1)
    assert check(x, y).ok
    assert not (y[:, :-1] > y[:, 1:]).all()
    assert (y[:, :-1] >= y[:, 1:]).all()


def test_the_log_softmax_formula_overflows():
    x = torch.tensor([[1000.0, 1001.0, 1002.0], [0.0, -150.0, -200.0]])  # the demonstration's row

    def formula(shift: torch.Tensor) -> torch.Tensor:
        return x - shift - (x - shift).exp().sum(dim=1, keepdim=True).log()

    right = torch.log_softmax(x.double(), dim=1).float()
    nothing, peak = torch.zeros(2, 1), x.amax(dim=1, keepdim=True)
    assert formula(nothing)[0].isinf().all()
    assert torch.softmax(x, dim=1).log()[1].isinf().any()  # the other side of the equation
    assert torch.allclose(formula(peak), right)


def test_the_tolerance_accepts_errors_of_one_in_ten_thousand():
    x = torch.randn(256, 1024, generator=torch.Generator().manual_seed(0))
    right = torch.softmax(x, dim=1)
    y = right * (1 + 1e-4 * torch.sin(10 * x))
    y /= y.sum(dim=1, keepdim=True)
    assert torch.allclose(right, y, rtol=1e-5, atol=1e-5)
    assert torch.allclose(y.sum(dim=1), torch.ones(256))
    assert check(x, y).max_rel_err > 9e-5
    assert not check(x, y).ok
    assert check(x, right).ok
    assert not torch.allclose(right, y, rtol=1e-5, atol=0)


def test_columns_that_are_not_adjacent_are_not_refused():
    x = planted(300, 40, torch.float32, DEVICE, seed=0).T
    assert not check(x, tiles.capped_block(x, torch.empty_like(x), cap=None)).ok
    x = x.contiguous()
    assert check(x, tiles.capped_block(x, torch.empty_like(x), cap=None)).ok
