"""S2, the Triton tutorial."""

import torch
import triton

from experiments.check import planted
from tests.reference import DEVICE
from tests.wrong import tiles

ROWS = 4096
# Columns, and GB/s of Triton, torch and the naive steps: the rows of the table that are printed.
TABLE = (
    (256, 682.666643, 744.727267, 256.000001),
    (384, 877.714274, 877.714274, 311.088617),
    (512, 910.222190, 910.222190, 334.367358),
    (640, 975.238103, 930.909084, 372.363633),
    (768, 1068.521715, 1023.999964, 390.095241),
    (12160, 1601.316858, 1514.085562, 464.343688),
    (12288, 1604.963246, 1389.455824, 465.344393),
    (12416, 1602.064538, 1389.202822, 463.067592),
    (12544, 1599.235121, 1393.777728, 463.519622),
    (12672, 1602.782573, 1393.484517, 463.963376),
)
TIMER_STEP_NS = 1024


def test_the_fused_kernel_moves_elements_not_bytes():
    rows, cols = 6, 781
    x = torch.zeros(rows, cols)
    one_way = x.nbytes
    assert one_way != rows * cols
    assert one_way == rows * cols * x.element_size()


def test_the_maximum_writes_indices_too():
    rows = 6
    peak, indices = torch.zeros(rows, 781).max(dim=1)
    assert peak.nbytes == rows * 4  # what the count has
    assert peak.nbytes + indices.nbytes == 3 * rows * 4
    assert torch.zeros(rows, 781).amax(dim=1).nbytes == rows * 4


def test_no_printed_row_is_four_times_faster():
    ratios = [fused / naive for _, fused, _, naive in TABLE]
    assert (round(min(ratios), 2), round(max(ratios), 2)) == (2.62, 3.46)
    # The naive steps' traffic, 8MN + 4M elements, would have moved faster than the fused kernel.
    for cols, fused, _, naive in TABLE[5:]:
        assert naive * (8 * cols + 4) / (2 * cols) > 1.15 * fused


def test_torch_is_as_fast_or_faster_in_three_printed_rows():
    slower = [cols for cols, fused, torch_, _ in TABLE if fused <= torch_]
    assert slower == [256, 384, 512]
    gains = [fused / torch_ - 1 for _, fused, torch_, _ in TABLE[5:]]
    assert (round(min(gains), 2), round(max(gains), 2)) == (0.06, 0.16)
    # Up to 768 columns nothing differs by more than one step of the timer.
    for cols, fused, torch_, _ in TABLE[:5]:
        steps = [ROWS * cols * 8 / gbps / TIMER_STEP_NS for gbps in (fused, torch_)]
        assert all(abs(n - round(n)) < 1e-5 for n in steps)
        assert abs(round(steps[0]) - round(steps[1])) <= 1


def test_the_block_is_not_greater_than_a_row_that_is_a_power_of_two():
    def smallest_power_of_two_greater_than(cols: int) -> int:
        return 1 << cols.bit_length()

    for cols in (256, 512, 4096):
        assert smallest_power_of_two_greater_than(cols) == 2 * cols
        assert triton.next_power_of_2(cols) == cols
    assert triton.next_power_of_2(781) == smallest_power_of_two_greater_than(781) == 1024


def test_close_results_are_not_identical():
    x = planted(20, 781, torch.float32, DEVICE, seed=0)
    y, expected = tiles.capped_block(x, torch.empty_like(x), cap=None), torch.softmax(x, dim=1)
    assert torch.allclose(y, expected)
    assert not torch.equal(y, expected)
